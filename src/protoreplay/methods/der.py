"""Dark experience replay: stored images keep the scores that the network gave them when they were stored.

Buzzega, Boschini, Porrello, Abati and Calderara 2020, "Dark Experience for General Continual Learning: a Strong, Simple
Baseline" (NeurIPS). With h the network's scores and z those stored with an image,

    loss = cross-entropy of the new images + alpha * mean (h(x) - z)^2 of stored ones
           + beta * cross-entropy of stored ones        (DER++)

The two terms of stored images draw from the memory independently.
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


class DERConfig(MemorySettings):
    """Settings of dark experience replay."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (ours: as the baselines' on split-cifar10; Buzzega et al. 2020 train with SGD)."""
    budget: int = Field(10, ge=0)
    """Number of images in the replay memory (ours: as many as the paper's method keeps on CIFAR-10)."""
    alpha: float = Field(0.3, ge=0)
    """Weight of the squared difference from stored scores (the authors' code, split CIFAR-10: 0.3)."""
    beta: float = Field(0.0, ge=0)
    """Weight of the stored images' cross-entropy: 0 is DER, above it DER++ (the authors' code: 0.5)."""


class DER(AdamMethod[DERConfig]):
    """Fine-tuning on new images, and stored images with their scores, at most `batch_size` a step.

    The memory is that of `replay`. Scores are those of the network as an image's own task left it; as published, they
    are of all outputs, also of classes still to come.
    """

    Config = DERConfig
    summary = "dark experience replay: stored images keep their scores"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "lr": ADAM_RATES,
        "alpha": (0.3, 1.0),
        "beta": (0.0, 0.5),
    }

    def __init__(self, config: DERConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.memory = self.carry("memory", ReplayMemory.empty(context.no_images()))
        self.stored_scores = self.carry("stored_scores", torch.zeros(0, context.num_classes))
        self.pairs = self.carry("pairs", 0)
        """How many (task, class) pairs share the budget."""

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images and the memory's, then take the task's share and its scores into the memory."""
        stored, labels = self.memory.images.to(self.device), self.targets(self.memory.classes)
        scores, random = self.stored_scores.to(self.device), self.generator("replay", task.position)

        def draw() -> tuple[Tensor, Tensor]:
            index = torch.randperm(len(labels), generator=random)[: self.config.batch_size]
            return augment(stored[index], self.config, random), index

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            total = self.cross_entropy(images, targets)
            if self.config.alpha and len(labels):
                replayed, index = draw()
                total = total + self.config.alpha * functional.mse_loss(self.network(replayed), scores[index])
            if self.config.beta and len(labels):
                replayed, index = draw()
                total = total + self.config.beta * self.cross_entropy(replayed, labels[index])
            return total

        self.fit(task, self.optimizer, on_step, loss=loss)
        self._store(task)

    @torch.no_grad()
    def _store(self, task: Task) -> None:
        """Shrink the memory to its new share, and add images of the task with what the network now says of them."""
        self.pairs += len(task.classes)
        share = quota(self.config.budget, self.config.budget_per, self.pairs)
        old = self.stored_scores[self.memory.within(share)]
        self.memory = self.memory.after(task, share, self.generator("memory", task.position))
        new = self.memory.images[len(old) :].to(self.device)
        self.stored_scores = torch.cat([old, self.network(new).cpu()]) if len(new) else old
