"""Plain fine-tuning: each task trained as if it were the only one."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import EncoderSettings
from protoreplay.methods.linear import LinearMethod
from protoreplay.streams.stream import Task


class SGDConfig(EncoderSettings):
    """Settings of fine-tuning."""

    lr: float = Field(1e-2, gt=0)
    """Learning rate of plain SGD, without momentum (published for split-cifar10: 1e-2)."""


class SGD(LinearMethod[SGDConfig]):
    """The encoder with a linear head, trained on each task's images alone."""

    Config = SGDConfig
    summary = "plain fine-tuning, nothing against forgetting"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)}

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images, among all classes seen so far."""
        optimizer = torch.optim.SGD(self.network.parameters(), lr=self.config.lr)
        self.fit(task, optimizer, on_step)
