"""What each method carries from task to task, counted on real objects."""

from dataclasses import dataclass
from typing import Any

from protoreplay.methods import registry
from protoreplay.methods.base import Method, MethodContext
from protoreplay.methods.state import LedgerItem
from protoreplay.methods.vpr_paper import VPRPaper
from protoreplay.streams.protocols import Protocol

PAPER_REGULARISERS = ("l2", "online-ewc", "si", "mas")


@dataclass(frozen=True)
class MethodMemory:
    """What one method keeps.

    Attributes:
        method: its name.
        ledgers: after each task.
        paper: what the paper's way of counting gives after the last, None where the paper's table lacks the method.
    """

    method: str
    ledgers: list[list[LedgerItem]]
    paper: int | None

    @property
    def ledger(self) -> list[LedgerItem]:
        """After all tasks."""
        return self.ledgers[-1]

    @property
    def growth(self) -> list[int]:
        """All bytes kept after each task."""
        return [sum(item.bytes for item in ledger) for ledger in self.ledgers]

    @property
    def numbers(self) -> int:
        """All numbers kept."""
        return sum(item.numbers for item in self.ledger)

    @property
    def bytes(self) -> int:
        """All bytes kept."""
        return self.growth[-1]


def measure_memory(protocol: Protocol, names: list[str]) -> list[MethodMemory]:
    """Take each method through all tasks of the stream, trained in one pass, and count what it keeps after each.

    One pass and not none: what an optimiser carries comes into being with its first step.
    """
    stream = protocol.stream(seed=0)
    context = MethodContext(stream.image_shape, stream.num_classes)
    measured = []
    for name in names:
        recipe = registry.get_method(name)
        briefly = {"epochs": 1} if "epochs" in recipe.method.Config.model_fields else {}
        method = recipe.build(registry.configure(name, protocol, briefly), context)
        ledgers = []
        for task in stream:
            method.learn(task)
            ledgers.append(method.ledger())
        measured.append(MethodMemory(name, ledgers, _papers_count(name, method)))
    return measured


def _papers_count(name: str, method: Method[Any]) -> int | None:
    """The paper's table: weights without biases; twice for regularisers; for VPR its images and last prototypes."""
    weights = sum(p.numel() for p in method.network.parameters() if p.ndim > 1) if hasattr(method, "network") else 0
    if name in PAPER_REGULARISERS:
        return 2 * weights
    if isinstance(method, VPRPaper):
        last = method.prototypes[-1].gaussian
        return weights + method.memory.images.numel() + last.mean.numel() + last.logvar.numel()
    return None
