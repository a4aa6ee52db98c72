"""The quadratic penalty that every regulariser puts on leaving old weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import ADAM_RATES, AdamSettings, MethodContext
from protoreplay.methods.linear import AdamMethod, Step
from protoreplay.methods.optimizers import descend
from protoreplay.streams.stream import Task

SEARCH: Mapping[str, tuple[float, ...]] = {"lr": ADAM_RATES, "strength": (0.01, 1.0, 100.0, 1e4, 1e6)}
"""What is tried when a regulariser's settings are tuned."""

BLOCK = 2**15

Weights = dict[str, Tensor]
"""One number for each weight of a network, by the names of its parameters."""


class PenaltySettings(AdamSettings):
    """Settings of every regulariser.

    Published strengths are quoted from scripts that run the code of Hsu et al. 2018, and mean what they mean there.
    """

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (published for split-cifar10: 1e-3); its moments are kept across tasks."""
    strength: float = Field(1.0, ge=0)
    """The penalty is `strength * sum of importance * (weight - anchor) ** 2`."""
    half: bool = False
    """Halve the penalty, as the paper of EWC does (Kirkpatrick et al. 2017); the code that published strengths are
    quoted from does not, for any regulariser (Hsu et al. 2018)."""

    @property
    def factor(self) -> float:
        """What the sum is multiplied by."""
        return self.strength / 2 if self.half else self.strength


@dataclass(frozen=True)
class Quadratic:
    """The function `sum of importance * (weight - anchor) ** 2` of a network's weights.

    Attributes:
        importance: of each weight, not negative; a tensor of one number stands for all weights of its parameter.
        anchor: where each weight's term is least.
    """

    importance: Weights
    anchor: Weights

    @torch.no_grad()
    def absorb(self, importance: Weights, anchor: Mapping[str, Tensor]) -> None:
        """Become the sum with another one, but for a constant: parabolas sum to one around their weighted mean.

        So any number of past tasks takes the room and the time of one. It is done in place, and `importance` is used
        up: fresh memory takes longer than the arithmetic.
        """
        for name, held in self.importance.items():
            held += importance[name]
            # Where neither has any importance the share is 0 / 0, and any anchor is right.
            share = importance[name].div_(held).nan_to_num_(nan=1.0)
            self.anchor[name].lerp_(anchor[name], share)

    def holds(self) -> bool:
        """Whether any weight has importance: before the first task is over none has."""
        return any(importance.any() for importance in self.importance.values())

    @torch.no_grad()
    def pull(self, network: nn.Module, factor: float) -> float:
        """Add the gradient of `factor` times this function to the weights' gradients, and return its value.

        In closed form, because autograd would take several times as long for the same numbers, and in blocks, so that
        what stands between the weights and their gradients never leaves the processor's cache. A weight that took no
        part in the loss is pulled like any other; one that is not trained stays where it is.
        """
        value = torch.zeros((), dtype=torch.float64)
        for name, weight in network.named_parameters():
            if not weight.requires_grad:
                continue
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            weight.grad = weight.grad.contiguous()
            whole = (weight, self.anchor[name], self.importance[name], weight.grad)
            blocks = [one.reshape(-1).expand(weight.numel()).split(BLOCK) for one in whole]
            for here, anchor, importance, gradient in zip(*blocks, strict=True):
                offset = here - anchor
                weighted = offset * importance
                gradient.add_(weighted, alpha=2 * factor)
                value = value + torch.dot(weighted, offset)
        return factor * value.item()


def weights(network: nn.Module) -> Weights:
    """A copy of all weights."""
    return {name: weight.detach().clone() for name, weight in network.named_parameters()}


def no_importance(network: nn.Module) -> Weights:
    """Zero for every weight."""
    return {name: torch.zeros_like(weight) for name, weight in network.named_parameters()}


def penalised(penalty: Quadratic, network: nn.Module, factor: float) -> Step:
    """A step on the loss plus `factor` times the penalty; a plain one where that is nothing."""
    if not factor or not penalty.holds():
        return descend

    def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
        optimizer.zero_grad()
        loss.backward()
        value = penalty.pull(network, factor)
        optimizer.step()
        return loss.item() + value

    return step


P = TypeVar("P", bound=PenaltySettings)


class Regulariser(AdamMethod[P]):
    """Fine-tuning with a quadratic penalty on leaving old weights."""

    search: ClassVar[Mapping[str, tuple[Any, ...]]] = SEARCH

    def fit_with(self, penalty: Quadratic, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images, by cross-entropy and the penalty."""
        self.fit(task, self.optimizer, on_step, step=penalised(penalty, self.network, self.config.factor))


class ImportanceRegulariser(Regulariser[P]):
    """Its penalty is around the weights as the last task left them, by importances that it carries."""

    def __init__(self, config: P, context: MethodContext) -> None:
        super().__init__(config, context)
        self.importance = self.carry("importance", no_importance(self.network))
