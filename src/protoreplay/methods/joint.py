"""Joint training: for each task, retrained on all data seen so far, which it keeps."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import ADAM_RATES, EncoderSettings, MethodContext
from protoreplay.methods.linear import LinearMethod
from protoreplay.methods.optimizers import adam
from protoreplay.streams.stream import Task


class JointConfig(EncoderSettings):
    """Settings of joint training."""

    epochs: int = Field(200, ge=0)
    """Epochs over all images (ours: on validation images of split-digits, 200 are 5 percentage points better than 50,
    and 500 no better)."""
    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (ours: as the baselines' on split-cifar10)."""


class LabelledImages(NamedTuple):
    """All images seen so far: uint8, N x C x H x W, and int64, N."""

    images: Tensor
    labels: Tensor


class Joint(LinearMethod[JointConfig]):
    """A fresh network with a linear head for every task, trained on all images seen so far."""

    Config = JointConfig
    summary = "retrained on all data so far, which it keeps"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": ADAM_RATES}

    def __init__(self, config: JointConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.data = self.carry("data", LabelledImages(context.no_images(), torch.zeros(0, dtype=torch.int64)))

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Add the task's images to all others and train from the start."""
        self.data = LabelledImages(
            torch.cat([self.data.images, task.images]), torch.cat([self.data.labels, task.labels])
        )
        self.network = self.fresh_network()
        everything = Task(task.position, self.classes, *self.data)
        self.fit(everything, adam(self.network, self.config.lr), on_step)
