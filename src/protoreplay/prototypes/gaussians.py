"""Diagonal Gaussians as prototypes: sampling, averaging, and the bank that is stored after a task."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional


class Gaussian(NamedTuple):
    """Diagonal Gaussians, one a row: `mean` and `logvar`, each N x D."""

    mean: Tensor
    logvar: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """`mean + exp(logvar / 2) * noise`; noise of Z x N x D (or Z x 1 x D, shared by all rows) gives Z x N x D."""
        return torch.addcmul(self.mean, (0.5 * self.logvar).exp(), noise)


class ClassMeans(NamedTuple):
    """Prototypes that are means alone: `mean`, K x D, and the class of each, int64, K."""

    mean: Tensor
    classes: Tensor

    @classmethod
    def none(cls, width: int, device: torch.device) -> "ClassMeans":
        """No prototypes of `width` dimensions."""
        return cls(torch.zeros(0, width, device=device), torch.zeros(0, dtype=torch.int64, device=device))

    def plus(self, mean: Tensor, classes: tuple[int, ...]) -> "ClassMeans":
        """With more of them: K' x D, and their classes."""
        labels = torch.tensor(classes, device=self.mean.device)
        return ClassMeans(torch.cat([self.mean, mean]), torch.cat([self.classes, labels]))


@dataclass(frozen=True)
class PrototypeBank:
    """The prototypes stored after a task.

    Attributes:
        gaussian: one row a prototype, K x D.
        tasks: int64, K: the position of the task that brought it.
        classes: int64, K: its class. A (task, class) pair occurs once.
    """

    gaussian: Gaussian
    tasks: Tensor
    classes: Tensor

    def __len__(self) -> int:
        return len(self.classes)

    @classmethod
    def empty(cls, width: int, device: torch.device) -> Self:
        """A bank of no prototypes."""
        nothing, none = torch.zeros(0, width, device=device), torch.zeros(0, dtype=torch.int64)
        return cls(Gaussian(nothing, nothing), none, none)

    @classmethod
    def concatenate(cls, *banks: Self) -> Self:
        """The prototypes of all `banks`, in order."""
        return cls(
            Gaussian(torch.cat([b.gaussian.mean for b in banks]), torch.cat([b.gaussian.logvar for b in banks])),
            torch.cat([b.tasks for b in banks]),
            torch.cat([b.classes for b in banks]),
        )

    def index(self, tasks: Tensor, classes: Tensor) -> Tensor:
        """For each (task, class) pair, N each, the row of its prototype (int64, N), or -1 where there is none."""
        match = (tasks[:, None] == self.tasks) & (classes[:, None] == self.classes)
        return torch.where(match.any(1), match.int().argmax(1), -1)


def independent_noise(samples: int, rows: int, dim: int, random: torch.Generator) -> Tensor:
    """Standard normal numbers, samples x rows x dim."""
    return torch.randn(samples, rows, dim, generator=random)


def antithetic_noise(samples: int, rows: int, dim: int, random: torch.Generator) -> Tensor:
    """Standard normal numbers, samples x rows x dim, in pairs of opposite sign: half as many are drawn."""
    noise = torch.empty(samples, rows, dim)
    drawn = noise[: math.ceil(samples / 2)].normal_(generator=random)
    torch.neg(drawn[: samples // 2], out=noise[len(drawn) :])
    return noise


def group_means(gaussian: Gaussian, groups: Tensor, count: int) -> Gaussian:
    """Prototypes: the average mean and the average log-variance of each group.

    Args:
        gaussian: N x D, one row an image.
        groups: int64, N, from 0 to count - 1; every group has a member.
        count: number of groups K.

    Returns:
        K x D.
    """
    weights = functional.one_hot(groups, count).to(gaussian.mean.dtype)
    weights = (weights / weights.sum(0)).T
    return Gaussian(weights @ gaussian.mean, weights @ gaussian.logvar)


def class_probabilities(probabilities: Tensor, owners: Tensor, classes: Tensor) -> Tensor:
    """Probabilities of classes from those of their prototypes: each class has its nearest prototype's, renormalised.

    So the most probable class is always the one of the nearest prototype.

    Args:
        probabilities: N x K, one column a prototype.
        owners: int64, K: the class of each prototype.
        classes: int64, C, ascending: the classes wanted.

    Returns:
        N x C.
    """
    column = torch.searchsorted(classes, owners).expand_as(probabilities)
    best = probabilities.new_zeros(len(probabilities), len(classes)).scatter_reduce(1, column, probabilities, "amax")
    return best / best.sum(1, keepdim=True)


def class_scores(scores: Tensor, owners: Tensor) -> Tensor:
    """The best score, N x C, of each class's prototypes, N x K; `owners`, int64, K, are classes from 0 up."""
    best = scores.new_full((len(scores), int(owners.max()) + 1), -torch.inf)
    return best.scatter_reduce(1, owners.expand_as(scores), scores, "amax")
