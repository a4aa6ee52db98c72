"""L2: the distance from the weights after the task before, all weights alike."""

import torch
from pydantic import Field

from protoreplay.core.progress import StepCallback
from protoreplay.methods.penalty import PenaltySettings, Quadratic, Regulariser, weights
from protoreplay.streams.stream import Task


class L2Config(PenaltySettings):
    """Settings of L2."""

    strength: float = Field(100.0, ge=0)
    """The penalty is `strength * sum of (weight - old weight) ** 2` (published for split-cifar10: 100)."""


class L2(Regulariser[L2Config]):
    """Fine-tuning, with one quadratic term around the weights as the last task left them.

    Those are the network's own when a task begins, so nothing is kept beside the network and its optimiser.
    """

    Config = L2Config
    summary = "weights held near those after the task before"

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images with the penalty; the first task has none."""
        anchor = weights(self.network)
        penalty = Quadratic(dict.fromkeys(anchor, torch.tensor(float(bool(self.old_classes)))), anchor)
        self.fit_with(penalty, task, on_step)
