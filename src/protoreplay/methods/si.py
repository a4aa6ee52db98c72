"""Synaptic Intelligence: weights are held by how much their motion lowered the loss."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.penalty import (
    ImportanceRegulariser,
    PenaltySettings,
    Quadratic,
    Weights,
    no_importance,
    weights,
)
from protoreplay.streams.stream import Task


class SIConfig(PenaltySettings):
    """Settings of SI."""

    strength: float = Field(600.0, ge=0)
    """The penalty is `strength * sum of importance * (weight - weight after the task before) ** 2`
    (published for split-cifar10: 600)."""
    xi: float = Field(0.1, gt=0)
    """Damping that keeps the importance of a weight that hardly moved finite (Zenke et al. 2017: 0.1)."""
    clamp: Literal["sum", "task"] = "sum"
    """What is clamped at 0: the sum of all tasks' importances (as in the code of Zenke et al. 2017), so that a task can
    reduce earlier importances, or the contribution of each task."""


class SI(ImportanceRegulariser[SIConfig]):
    """Fine-tuning, with one quadratic term around the latest weights; importances of tasks are summed.

    A task's importance of a weight is its share in the fall of the loss, the path integral of `-gradient * motion`,
    divided by `(its motion over the task) ** 2 + xi`.
    """

    Config = SIConfig
    summary = "Synaptic Intelligence"

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images with the penalty, then add the task's importances."""
        start = weights(self.network)
        path = self._train(task, Quadratic(self.importance, start), on_step)
        end = weights(self.network)
        least = 0 if self.config.clamp == "task" else -torch.inf
        self.importance = {
            name: (path[name].clamp(min=least) / ((end[name] - start[name]).square() + self.config.xi) + old).clamp(
                min=0
            )
            for name, old in self.importance.items()
        }

    def _train(self, task: Task, penalty: Quadratic, on_step: StepCallback) -> Weights:
        """Train on the task's images; returns each weight's share in the fall of the loss, without the penalty."""
        path, held = no_importance(self.network), penalty.holds()
        # Made once: memory that is taken and given back in every step can double its time.
        before, gradients = weights(self.network), no_importance(self.network)
        parameters = dict(self.network.named_parameters())

        def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
            optimizer.zero_grad()
            loss.backward()
            for name, weight in parameters.items():
                # A weight that takes no part in the loss has no share in its fall.
                gradients[name].copy_(torch.zeros(()) if weight.grad is None else weight.grad)
            value = penalty.pull(self.network, self.config.factor) if held else 0.0
            optimizer.step()
            for name, weight in parameters.items():
                path[name].addcmul_(gradients[name], before[name].sub_(weight.detach()))
                before[name].copy_(weight.detach())
            return loss.item() + value

        self.fit(task, self.optimizer, on_step, step=step)
        return path
