"""Replay: stored images of old classes in every batch of new ones."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.augmentation import augment
from protoreplay.methods.base import ADAM_RATES, MemorySettings, MethodContext
from protoreplay.methods.linear import AdamMethod
from protoreplay.methods.replay_memory import ReplayMemory, quota
from protoreplay.streams.stream import Task


class ReplayConfig(MemorySettings):
    """Settings of replay."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (ours: as the baselines' on split-cifar10)."""
    budget: int = Field(10, ge=0)
    """Number of images in the replay memory (ours: as many as the paper's method keeps on CIFAR-10)."""


class Replay(AdamMethod[ReplayConfig]):
    """Fine-tuning by cross-entropy, on new images together with as many from a memory, at most `batch_size`."""

    Config = ReplayConfig
    summary = "stored images mixed into each batch of new ones"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": ADAM_RATES}

    def __init__(self, config: ReplayConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.memory = self.carry("memory", ReplayMemory.empty(context.no_images()))
        self.pairs = self.carry("pairs", 0)
        """How many (task, class) pairs share the budget."""

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images and the memory's, then take the task's share into the memory."""
        stored, labels = self.memory.images.to(self.device), self.targets(self.memory.classes)
        random = self.generator("replay", task.position)

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            index = torch.randperm(len(labels), generator=random)[: self.config.batch_size]
            replayed = augment(stored[index], self.config, random)
            return self.cross_entropy(torch.cat([images, replayed]), torch.cat([targets, labels[index]]))

        self.fit(task, self.optimizer, on_step, loss=loss)
        self.pairs += len(task.classes)
        share = quota(self.config.budget, self.config.budget_per, self.pairs)
        self.memory = self.memory.after(task, share, self.generator("memory", task.position))
