"""Learning without Forgetting: on the new images, keep to what the network said of them before."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import ADAM_RATES, AdamSettings
from protoreplay.methods.distillation import soft_cross_entropy
from protoreplay.methods.linear import AdamMethod
from protoreplay.streams.stream import Task


class LwFConfig(AdamSettings):
    """Settings of LwF."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (ours: as the baselines' on split-cifar10)."""
    strength: float = Field(1.0, ge=0)
    """Weight of the distillation loss relative to the cross-entropy (Li and Hoiem 2016: 1)."""
    temperature: float = Field(2.0, gt=0)
    """Temperature that softens both networks' probabilities (Li and Hoiem 2016: 2)."""
    scale_by_temperature: bool = False
    """Multiply the distillation by `temperature ** 2`, so that its gradient does not shrink as the temperature grows
    (Hinton et al. 2015; Li and Hoiem 2016 do not)."""

    @property
    def factor(self) -> float:
        """What the distillation is multiplied by."""
        return self.strength * (self.temperature**2 if self.scale_by_temperature else 1.0)


class LwF(AdamMethod[LwFConfig]):
    """Fine-tuning, with distillation of the classes known before from the network as the last task left it.

    That is the network's own state when a task begins, so no second network is kept.
    """

    Config = LwFConfig
    summary = "Learning without Forgetting, distillation on the new images"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": ADAM_RATES, "strength": (0.1, 1.0, 10.0, 100.0, 1e3)}

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images, by cross-entropy among all classes and distillation among the old ones."""
        old, teacher = list(self.old_classes), self.network.frozen_copy()

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            scores = self.network(images)
            total = torch.nn.functional.cross_entropy(scores[:, list(self.classes)], targets)
            if old:
                with torch.no_grad():
                    before = teacher(images)[:, old]
                divergence = soft_cross_entropy(scores[:, old], before, self.config.temperature)
                total = total + self.config.factor * divergence
            return total

        self.fit(task, self.optimizer, on_step, loss=loss)
