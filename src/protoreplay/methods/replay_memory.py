"""The replay memory: a few images of every class seen, within a budget."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from protoreplay.streams.stream import Task

BudgetPer = Literal["run", "class"]


@dataclass(frozen=True)
class ReplayMemory:
    """Stored images with the task and class that each came from.

    The images of a (task, class) pair stand in random order, so that its first k are a uniform draw for every k, and
    shrinking to the first k keeps a subset of what was kept before.

    Attributes:
        images: uint8, M x C x H x W; of a stream of features float32, M x D x 1 x 1.
        tasks: int64, M.
        classes: int64, M.
    """

    images: Tensor
    tasks: Tensor
    classes: Tensor

    @classmethod
    def empty(cls, no_images: Tensor) -> "ReplayMemory":
        """A memory of no images, as `MethodContext.no_images` gives them."""
        none = torch.zeros(0, dtype=torch.int64)
        return cls(no_images, none, none)

    def __len__(self) -> int:
        return len(self.classes)

    def after(self, task: Task, quota: int, generator: torch.Generator) -> "ReplayMemory":
        """The memory once `task` is over: images of it added, and `quota` of each (task, class) pair kept at most."""
        order = torch.randperm(len(task.labels), generator=generator)
        images = torch.cat([self.images, task.images[order]])
        tasks = torch.cat([self.tasks, torch.full_like(task.labels, task.position)])
        classes = torch.cat([self.classes, task.labels[order]])
        keep = ReplayMemory(images, tasks, classes).within(quota)
        return ReplayMemory(images[keep], tasks[keep], classes[keep])

    def within(self, quota: int) -> Tensor:
        """Which images, bool, M, are among the first `quota` of their (task, class) pair."""
        pairs, group = torch.stack([self.tasks, self.classes], 1).unique(dim=0, return_inverse=True)
        member = torch.nn.functional.one_hot(group, max(1, len(pairs)))
        place_in_group = (member.cumsum(0) * member).sum(1) - 1
        return place_in_group < quota


def quota(budget: int, per: BudgetPer, pairs: int) -> int:
    """Images that each of `pairs` (task, class) pairs may keep: an even share of the run's budget, or all of its own.

    Examples:
        >>> quota(10, "run", 3), quota(1, "class", 500)
        (3, 1)
    """
    return budget // pairs if per == "run" else budget
