"""Variational prototypes: sampling, distances, and the bank that is stored after a task.

Distances are matrix products: nothing of size images x classes x dim is ever made. A leading dimension (Z samples)
is batched.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor


class Gaussian(NamedTuple):
    """Diagonal Gaussians, one a row: `mean` and `logvar`, each N x D."""

    mean: Tensor
    logvar: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """`mean + exp(logvar / 2) * noise`; noise of Z x N x D (or Z x 1 x D, shared by all rows) gives Z x N x D."""
        return torch.addcmul(self.mean, (0.5 * self.logvar).exp(), noise)


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
        """Number of prototypes."""
        return len(self.classes)

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


def group_means(gaussian: Gaussian, groups: Tensor, count: int) -> Gaussian:
    """Prototypes: the average mean and the average log-variance of each group.

    Args:
        gaussian: N x D, one row an image.
        groups: int64, N, from 0 to count - 1; every group has a member.
        count: number of groups K.

    Returns:
        K x D.
    """
    weights = torch.nn.functional.one_hot(groups, count).to(gaussian.mean.dtype)
    weights = (weights / weights.sum(0)).T
    return Gaussian(weights @ gaussian.mean, weights @ gaussian.logvar)


def squared_distances(x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Squared Euclidean distance of every row of `x` to every row of `y`, each dimension times `weight`.

    Args:
        x: N x D, or Z x N x D.
        y: K x D, or Z x K x D.
        weight: None (all 1) or K x D, positive: `sum_d weight[k, d] * (x[n, d] - y[k, d]) ** 2`.

    Returns:
        N x K, or Z x N x K; never negative. Values within rounding error of 0 are 0 with gradient 0, so that a
        square root after this has a finite gradient everywhere.
    """
    if x.ndim == 2:
        return squared_distances(x[None], y[None], weight)[0]
    # Around the centre of y the terms that cancel are as small as they can be; the centre drops out of the result.
    centre = y.detach().mean(-2, keepdim=True)
    x, y = x - centre, y - centre
    if weight is None:
        x_term = x.square().sum(-1, keepdim=True)
        y_term = y.square().sum(-1)[:, None]
        scale = x_term + y_term.amax(-1, keepdim=True)
        result = x @ (-2 * y).mT
        result += x_term
    else:
        y_term = (weight * y.square()).sum(-1)[:, None]
        result = x.square() @ weight.mT
        scale = result.amax(-2, keepdim=True) + y_term
        result.baddbmm_(x, (weight * y).mT, alpha=-2)
    result += y_term
    rounding = 8 * torch.finfo(x.dtype).eps * scale.detach()
    return result.masked_fill_(result.detach() <= rounding, 0.0)


def expected_squared_distances(x: Gaussian, y: Gaussian, weight: Tensor | None = None) -> Tensor:
    """The expectation of `squared_distances` between independent samples of `x` and of `y`, in closed form.

    It is the squared distance of the means plus both variances, each dimension times `weight`.

    Args:
        x: N x D.
        y: K x D.
        weight: None or K x D.

    Returns:
        N x K.
    """
    between = squared_distances(x.mean, y.mean, weight)
    x_var, y_var = x.logvar.exp(), y.logvar.exp()
    if weight is None:
        return between + x_var.sum(-1, keepdim=True) + y_var.sum(-1)
    return between + x_var @ weight.mT + (weight * y_var).sum(-1)


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


def clusters(x: Tensor, count: int, generator: torch.Generator, rounds: int = 10) -> tuple[Tensor, Tensor]:
    """Several prototypes of one class: k-means.

    Args:
        x: N x D.
        count: number of prototypes K, at most N.
        generator: draws the rows to start from.
        rounds: of assignment and averaging.

    Returns:
        The means, K x D, and the nearest one of each row, int64, N.
    """
    if count == 1:
        return x.mean(0, keepdim=True), torch.zeros(len(x), dtype=torch.int64, device=x.device)
    means = x[torch.randperm(len(x), generator=generator)[:count].to(x.device)]
    for _ in range(rounds):
        member = torch.nn.functional.one_hot(squared_distances(x, means).argmin(1), count).to(x.dtype)
        size = member.sum(0)[:, None]
        means = torch.where(size > 0, member.T @ x / size.clamp(min=1), means)
    return means, squared_distances(x, means).argmin(1)
