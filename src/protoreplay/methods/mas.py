"""Memory Aware Synapses: weights are held by how much the network's outputs depend on them."""

from typing import Annotated, Literal

from pydantic import Field

from protoreplay.core.progress import StepCallback
from protoreplay.methods.importance import sensitivity, some
from protoreplay.methods.penalty import (
    ImportanceRegulariser,
    PenaltySettings,
    Quadratic,
    weights,
)
from protoreplay.streams.stream import Task


class MASConfig(PenaltySettings):
    """Settings of MAS."""

    strength: float = Field(1.0, ge=0)
    """The penalty is `strength * sum of importance * (weight - weight after the task before) ** 2`
    (published for split-cifar10: 1)."""
    outputs: Literal["mean", "sum"] = "mean"
    """Importances come from the mean of the squared outputs (as in the code that published strengths are quoted from,
    Hsu et al. 2018), or from their sum (Aljundi et al. 2018), which is larger by a factor of the number of classes."""
    importance_images: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    """Number of task images that importances are averaged over, drawn at random if there are more (ours)."""


class MAS(ImportanceRegulariser[MASConfig]):
    """Fine-tuning, with one quadratic term around the latest weights; importances of tasks are summed.

    A task's importance of a weight is the mean over its images of `|d (mean or sum of squared scores) / d weight|`.
    """

    Config = MASConfig
    summary = "Memory Aware Synapses"

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images with the penalty, then add the task's importances."""
        penalty = Quadratic(self.importance, weights(self.network))
        self.fit_with(penalty, task, on_step)
        index = some(len(task.labels), self.config.importance_images, self.generator("importance", task.position))
        new = sensitivity(self.network, task.images[index].to(self.device), self.classes)
        outputs = len(self.classes) if self.config.outputs == "mean" else 1
        self.importance = {name: new[name].div_(outputs).add_(old) for name, old in self.importance.items()}
