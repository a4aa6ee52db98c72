"""ER-ACE: replay in which new images compete with new classes alone.

Caccia, Aljundi, Asadi, Tuytelaars, Pineau and Belilovsky 2022, "New Insights on Reducing Abrupt Representation Change
in Online Continual Learning" (ICLR). The asymmetric cross-entropy:

    loss = cross-entropy of the new images among the classes of the task
           + cross-entropy of images of the memory among all classes seen

So the first steps on a new class do not push the old ones away. What tells new from old classes is the memory, which
therefore, as in the online form of the paper, has its share of the task's images from the start.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.methods.augmentation import augment
from protoreplay.methods.base import ADAM_RATES, MemorySettings, MethodContext
from protoreplay.methods.linear import AdamMethod
from protoreplay.methods.replay_memory import ReplayMemory, quota
from protoreplay.streams.stream import Task


class ERACEConfig(MemorySettings):
    """Settings of ER-ACE."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (ours: as the baselines' on split-cifar10; Caccia et al. 2022 train with SGD)."""
    budget: int = Field(10, ge=0)
    """Number of images in the replay memory (ours: as many as the paper's method keeps on CIFAR-10)."""


class ERACE(AdamMethod[ERACEConfig]):
    """Fine-tuning on new images among the new classes, and on the memory's, at most `batch_size`, among all."""

    Config = ERACEConfig
    summary = "ER-ACE: replay in which new images compete with new classes alone"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": ADAM_RATES}

    def __init__(self, config: ERACEConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.memory = self.carry("memory", ReplayMemory.empty(context.no_images()))
        self.pairs = self.carry("pairs", 0)
        """How many (task, class) pairs share the budget."""

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Take the task's share into the memory, then train on the task's images and the memory's."""
        self.pairs += len(task.classes)
        share = quota(self.config.budget, self.config.budget_per, self.pairs)
        self.memory = self.memory.after(task, share, self.generator("memory", task.position))
        stored, labels = self.memory.images.to(self.device), self.targets(self.memory.classes)
        random = self.generator("replay", task.position)
        foreign = torch.tensor([label not in task.classes for label in self.classes], device=self.device)

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            among_new = self.scores(images).masked_fill(foreign, -torch.inf)
            total = functional.cross_entropy(among_new, targets)
            if len(labels):
                index = torch.randperm(len(labels), generator=random)[: self.config.batch_size]
                total = total + self.cross_entropy(augment(stored[index], self.config, random), labels[index])
            return total

        self.fit(task, self.optimizer, on_step, loss=loss)
