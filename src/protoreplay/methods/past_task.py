"""What a past task left behind, for its replay: the prototypes stored after it, and the images it knew."""

from dataclasses import dataclass

import torch
from torch import Tensor

from protoreplay.methods.replay_memory import ReplayMemory
from protoreplay.prototypes.gaussians import Gaussian, PrototypeBank


@dataclass(frozen=True)
class PastTask:
    """A past task as it is replayed.

    Attributes:
        prototypes: stored after it, K x D, constants.
        weight: of each dimension in squared distances to each of them, K x D, or None.
        images: those of the memory that were known then, uint8, M x C x H x W.
        targets: int64, M: the prototype of each image's own class.
    """

    prototypes: Gaussian
    weight: Tensor | None
    images: Tensor
    targets: Tensor

    @property
    def share(self) -> Tensor:
        """The sum of what each of the M images counts in the task's loss: 1, up to the rounding of recorded runs."""
        return torch.full((len(self.targets),), 1 / len(self.targets)).sum()


def past_tasks(
    banks: list[PrototypeBank], memory: ReplayMemory, weighted: bool, device: torch.device
) -> list[PastTask]:
    """The tasks after which `banks` were stored, without those of which the memory holds no image.

    Where `weighted`, a dimension of a prototype counts the less in a distance the more it varies.
    """
    images, found = memory.images.to(device), []
    for bank in banks:
        rows = bank.index(memory.tasks, memory.classes)
        # The memory stands in the order of tasks: what was known after one of them comes first.
        targets = rows[rows >= 0].to(device)
        if len(targets):
            # The weight in the squared distance is the square of exp(-0.5 * logvar).
            weight = (-bank.gaussian.logvar).exp() if weighted else None
            found.append(PastTask(bank.gaussian, weight, images[: len(targets)], targets))
    return found
