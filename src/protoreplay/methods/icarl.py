"""iCaRL: exemplars chosen by herding, distillation, and the nearest mean of exemplars."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.encoders.network import Network
from protoreplay.methods.base import ADAM_RATES, PREDICT_BATCH, BatchClassifier, MemorySettings, MethodContext
from protoreplay.methods.distillation import soft_cross_entropy
from protoreplay.methods.linear import AdamMethod, Loss
from protoreplay.methods.replay_memory import ReplayMemory, quota
from protoreplay.prototypes.distances import squared_distances
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class ICaRLConfig(MemorySettings):
    """Settings of iCaRL."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (ours: as the other baselines' on split-cifar10; Rebuffi et al. 2017 train with SGD)."""
    budget: int = Field(10, ge=0)
    """Number of exemplars kept (published for split-cifar10: 10)."""

    distillation: Literal["bce", "kl", "mse"] = "bce"
    """Distillation from the old network: binary cross-entropy of each output, which also learns the new classes
    (Rebuffi et al. 2017), or, in addition to cross-entropy over all classes, softened probabilities or scores."""
    temperature: float = Field(2.0, gt=0)
    """Temperature of `kl` distillation (Li and Hoiem 2016: 2), which is multiplied by its square (Hinton et al.
    2015)."""


class ICaRL(AdamMethod[ICaRLConfig]):
    """The encoder with a linear head that only trains it, and exemplars of every class of every task that answer.

    Exemplars stand in the order of their choice, so that fewer are the first ones. Classes that a task brings, be it
    again, are learned from labels; all other classes seen are distilled.
    """

    Config = ICaRLConfig
    summary = "iCaRL: herded exemplars, distillation, nearest mean of exemplars"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": ADAM_RATES, "distillation": ("bce", "kl", "mse")}

    def __init__(self, config: ICaRLConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.exemplars = self.carry("exemplars", ReplayMemory.empty(context.no_images()))
        self.pairs = self.carry("pairs", 0)
        """How many (task, class) pairs share the budget."""

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images and the exemplars, then choose exemplars of the task and drop some of the old."""
        teacher = self.network.frozen_copy()
        old = [column for column, label in enumerate(self.classes) if label not in task.classes]
        images = torch.cat([task.images, self.exemplars.images])
        labels = torch.cat([task.labels, self.exemplars.classes])
        everything = Task(task.position, tuple(labels.unique().tolist()), images, labels)
        self.fit(everything, self.optimizer, on_step, loss=self._loss(teacher, old))
        self.pairs += len(task.classes)
        self._choose(task, quota(self.config.budget, self.config.budget_per, self.pairs))

    def _loss(self, teacher: Network, old: list[int]) -> Loss:
        """The loss of the classes seen, of which the columns `old` are distilled from `teacher`."""

        def loss(images: Tensor, targets: Tensor) -> Tensor:
            scores = self.scores(images)
            with torch.no_grad():
                before = teacher(images)[:, list(self.classes)][:, old]
            if self.config.distillation == "bce":
                wanted = functional.one_hot(targets, len(self.classes)).to(scores.dtype)
                wanted[:, old] = before.sigmoid()
                return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / len(scores)
            total = functional.cross_entropy(scores, targets)
            if not old:
                return total
            if self.config.distillation == "kl":
                softness = self.config.temperature
                return total + softness**2 * soft_cross_entropy(scores[:, old], before, softness)
            return total + functional.mse_loss(scores[:, old], before)

        return loss

    @torch.no_grad()
    def _choose(self, task: Task, share: int) -> None:
        """Add herded exemplars of the task, and keep the first `share` of every (task, class) pair."""
        rows = [(task.labels == label).nonzero().flatten() for label in task.classes]
        rows = [row[herd(self.unit_features(task.images[row].to(self.device)), share).cpu()] for row in rows]
        chosen = torch.cat(rows)
        images = torch.cat([self.exemplars.images, task.images[chosen]])
        tasks = torch.cat([self.exemplars.tasks, torch.full_like(chosen, task.position)])
        classes = torch.cat([self.exemplars.classes, task.labels[chosen]])
        same_pair = (tasks[:, None] == tasks) & (classes[:, None] == classes)
        keep = same_pair.tril(-1).sum(1) < share
        self.exemplars = ReplayMemory(images[keep], tasks[keep], classes[keep])

    def unit_features(self, images: Tensor) -> Tensor:
        """What the trunk makes of images, as vectors of unit length."""
        return torch.cat([functional.normalize(self.network.trunk(part)) for part in images.split(PREDICT_BATCH)])

    def _classifier(self) -> BatchClassifier:
        """Nearest mean of exemplars; where the budget is too small for one of each pair, the head answers."""
        if not len(self.exemplars):
            return super()._classifier()
        pairs = torch.stack([self.exemplars.tasks, self.exemplars.classes])
        pairs, group = pairs.unique(dim=1, return_inverse=True)
        member = functional.one_hot(group).T.to(self.device, torch.float32)
        means = functional.normalize(member @ self.unit_features(self.exemplars.images.to(self.device)))
        owners, classes = pairs[1].contiguous().to(self.device), torch.tensor(self.classes, device=self.device)

        def read(images: Tensor) -> Tensor:
            nearest = (-squared_distances(self.unit_features(images), means).sqrt()).softmax(1)
            return class_probabilities(nearest, owners, classes)

        return read


def herd(features: Tensor, count: int) -> Tensor:
    """The rows (int64, at most `count`) whose running mean stays nearest to the mean of all, each chosen greedily.

    Args:
        features: N x D.
        count: how many.
    """
    mean, total = features.mean(0), torch.zeros_like(features[0])
    free = torch.ones(len(features), dtype=torch.bool, device=features.device)
    chosen: list[int] = []
    for number in range(1, min(count, len(features)) + 1):
        distance = (mean - (total + features) / number).norm(dim=1)
        chosen.append(int(distance.where(free, torch.inf).argmin()))
        free[chosen[-1]] = False
        total = total + features[chosen[-1]]
    return torch.tensor(chosen, dtype=torch.int64, device=features.device)
