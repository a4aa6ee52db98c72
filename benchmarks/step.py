"""The training step of every method, as a multiple of the bare encoder's step on the same images, on one thread.

The bare step is a forward and a backward pass and an optimiser step of the method's own network, for each batch of
images that the method's step sends through it with gradients: of VPR with fused replay, the new images and then the
memory. Both take turns, one step each, and a ratio is the median over these pairs, so that a slow moment of the
machine hits both. Times are of the processor, not of the wall; the one printed is of the last bare step. LeNet on
random images of CIFAR's size; every task brings ten images of each of its classes, and the memory holds one of each.
The new task brings one class. Where there are more past tasks than classes, classes come back.

    python benchmarks/step.py [--classes 10,100,1000] [--tasks 5,9,50] [--seconds 6] [--only vpr,ewc]
"""

import argparse
import copy
import itertools
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch

from protoreplay.encoders.network import Network
from protoreplay.methods.base import MethodContext
from protoreplay.methods.optimizers import adam, descend
from protoreplay.methods.registry import METHODS
from protoreplay.streams.stream import Task

SHAPE, SHOTS = (3, 32, 32), 10
PAPER = {"encoder": "lenet", "budget": 1, "budget_per": "class"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vpr-paper, closed form": ("vpr-paper", {"fused": True, "expectation": "closed-form"}),
    "vpr-paper, Z = 50": ("vpr-paper", {"fused": True}),
    "same, replay not fused": ("vpr-paper", {}),
    **{name: (name, {}) for name in ("sgd", "l2", "ewc", "online-ewc", "si", "mas", "lwf", "icarl", "replay", "joint")},
}
LARGEST = 3e8
"""Sampled distances in a step beyond which a case is left out: it takes minutes."""


class Enough(Exception):  # noqa: N818
    """Ends the learning of a task after the steps that were wanted."""


class Pairs:
    """A report that times each step of a method, and after it the bare encoder's."""

    bare: Callable[[], object]
    started = end = bare_seconds = 0.0

    def __init__(self, method: Any, seconds: float) -> None:
        self.method, self.seconds = method, seconds
        self.batches: list[int] = []
        self.ratios: list[float] = []
        self.hook = torch.nn.modules.module.register_module_forward_pre_hook(self._see)

    def _see(self, module: torch.nn.Module, arguments: Any) -> None:
        if isinstance(module, Network) and torch.is_grad_enabled():
            self.batches.append(len(arguments[0]))

    def __call__(self, step: int, steps: int, loss: float) -> None:
        now = time.process_time()
        if step == 1:
            self.hook.remove()
            network = copy.deepcopy(self.method.network)
            optimizer: torch.optim.Optimizer = adam(network, 1e-3)
            if type(self.method).__name__ == "SGD":
                optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
            batches = [random_images(size) for size in self.batches]
            self.bare = lambda: [descend(optimizer, network(images).square().mean()) for images in batches]
            self.end = now + self.seconds
        bare = time.process_time()
        self.bare()
        done = time.process_time()
        # The first steps of both reserve memory.
        if step > 2:
            self.ratios.append((now - self.started) / (done - bare))
            self.bare_seconds = done - bare
        if len(self.ratios) >= 3 and (done > self.end or len(self.ratios) == 100):
            raise Enough
        self.started = time.process_time()


def random_images(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, *SHAPE), generator=torch.Generator().manual_seed(count)).to(torch.uint8)


def past_tasks(classes: int, count: int) -> Iterator[Task]:
    """Classes in even shares, at least one a task."""
    cuts = [round(number * max(classes, count) / count) for number in range(count + 1)]
    for position, (first, end) in enumerate(itertools.pairwise(cuts), start=1):
        brought = tuple(label % classes for label in range(first, end))
        yield Task(position, brought, random_images(SHOTS * len(brought)), torch.tensor(brought).repeat(SHOTS))


def measure(name: str, settings: dict[str, Any], classes: int, tasks: int, seconds: float) -> Pairs:
    recipe, context = METHODS.get(name), MethodContext(SHAPE, classes + 1)
    method = recipe.build(recipe.settings(PAPER, {"epochs": 0, **settings}, name), context)
    for task in past_tasks(classes, tasks):
        method.learn(task)
    method.config = method.config.model_copy(update={"epochs": 10_000})
    pairs = Pairs(method, seconds)
    try:
        method.learn(Task(tasks + 1, (classes,), random_images(SHOTS), torch.full((SHOTS,), classes)), pairs)
    except Enough:
        return pairs
    raise AssertionError("a task of no end ended")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", default="10,100,1000")
    parser.add_argument("--tasks", default="5,9,50")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each ratio, but three pairs at least")
    parser.add_argument("--only", default="", help="the beginnings of the names wanted")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':24}{'classes':>8}{'past':>6}  {'images':<20}{'bare, ms':>9}{'step / bare':>12}{'pairs':>7}")
    many, long = ([int(number) for number in text.split(",")] for text in (options.classes, options.tasks))
    for (case, (name, settings)), classes, tasks in itertools.product(CASES.items(), many, long):
        if not case.startswith(tuple(options.only.split(","))):
            continue
        # Of evenly growing prototype sets, the sum of squares.
        if name == "vpr-paper" and len(settings) < 2 and 50 * max(classes, tasks) ** 2 * tasks / 3 > LARGEST:
            print(f"{case:24}{classes:>8}{tasks:>6}  left out: minutes a step", flush=True)
            continue
        pairs = measure(name, settings, classes, tasks, options.seconds)
        images = " + ".join(map(str, pairs.batches if len(pairs.batches) < 3 else [pairs.batches[0], "..."]))
        print(
            f"{case:24}{classes:>8}{tasks:>6}  {images:<20}{1000 * pairs.bare_seconds:>9.1f}"
            f"{median(pairs.ratios):>11.2f}x{len(pairs.ratios):>7}",
            flush=True,
        )


if __name__ == "__main__":
    main()
