"""Elastic Weight Consolidation: weights are held by their Fisher information, one quadratic term for every task."""

from typing import Annotated, Literal, TypeVar

from pydantic import Field

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import MethodContext
from protoreplay.methods.importance import FisherLabels, fisher, some
from protoreplay.methods.linear import LinearMethod
from protoreplay.methods.penalty import PenaltySettings, Quadratic, Regulariser, Weights, no_importance, weights
from protoreplay.streams.stream import Task


class FisherSettings(PenaltySettings):
    """How Fisher information is estimated."""

    fisher_labels: FisherLabels = "predicted"
    """Class whose log-probability the Fisher information is computed from: the label, the most probable class (as in
    the code that published strengths are quoted from, Hsu et al. 2018), a sampled class, or the expectation over
    all."""
    fisher_images: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    """Number of task images that the Fisher information is averaged over, drawn at random if there are more (ours)."""


F = TypeVar("F", bound=FisherSettings)


class EWCConfig(FisherSettings):
    """Settings of EWC."""

    strength: float = Field(600.0, ge=0)
    """The penalty is `strength * sum over past tasks and weights of fisher * (weight - weight after the task) ** 2`
    (published for split-cifar10: 600)."""


class EWC(Regulariser[EWCConfig]):
    """Fine-tuning, with a quadratic term for each past task around the weights it ended with.

    The terms are kept as their sum, exact but for a constant: importances and their centre, for any number of tasks.
    """

    Config = EWCConfig
    summary = "Elastic Weight Consolidation, a term for every task"

    def __init__(self, config: EWCConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.importance = self.carry("importance", no_importance(self.network))
        self.anchor = self.carry("anchor", weights(self.network))

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images with the penalty, then add the task's own term to it."""
        penalty = Quadratic(self.importance, self.anchor)
        self.fit_with(penalty, task, on_step)
        penalty.absorb(fisher_of_task(self, task), dict(self.network.named_parameters()))


def fisher_of_task(method: LinearMethod[F], task: Task) -> Weights:
    """The Fisher information of the network as it is now, on the task's images."""
    config, random = method.config, method.generator("fisher", task.position)
    index = some(len(task.labels), config.fisher_images, random)
    images, targets = task.images[index].to(method.device), method.targets(task.labels[index])
    return fisher(method.network, images, targets, method.classes, config.fisher_labels, random)
