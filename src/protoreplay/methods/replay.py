"""Replay: stored images of old classes in every batch of new ones."""

import torch
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.augmentation import augment
from protoreplay.methods.base import MemorySettings, MethodContext
from protoreplay.methods.linear import AdamMethod
from protoreplay.methods.replay_memory import ReplayMemory, quota
from protoreplay.streams.stream import Task


class ReplayConfig(MemorySettings):
    """Settings of replay."""


class Replay(AdamMethod[ReplayConfig]):
    """Fine-tuning by cross-entropy, on new images together with as many from a memory, at most `batch_size`."""

    Config = ReplayConfig
    summary = "stored images mixed into each batch of new ones"

    def __init__(self, config: ReplayConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.memory = self.carry("memory", ReplayMemory.empty(context.image_shape))
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
