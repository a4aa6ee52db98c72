"""The prototypes of `vpr`: means of features, domain by domain, and what the classes of the first one share."""

import functools
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.prototypes.covariance import SharedCovariance
from protoreplay.prototypes.sums import Floats


@dataclass(frozen=True)
class DomainPrototypes:
    """The prototypes of one domain.

    Attributes:
        mean: K x D.
        count: int64, K: views that each was made of.
        classes: int64, K.
    """

    mean: Tensor
    count: Tensor
    classes: Tensor

    def __len__(self) -> int:
        return len(self.count)

    def class_means(self) -> tuple[Tensor, Tensor]:
        """The classes, int64, C, ascending, and the mean of each, C x D."""
        classes, group = self.classes.unique(return_inverse=True)
        weight = functional.one_hot(group, len(classes)).T * self.count
        return classes, (weight / weight.sum(1, keepdim=True)).to(self.mean.dtype) @ self.mean


@dataclass(frozen=True, eq=False)
class VPRPrototypes:
    """All prototypes.

    Attributes:
        mean: K x D.
        count: int64, K: views that each was made of.
        classes: int64, K.
        domains: int64, K.
        scatter: of the first domain, the sum of the products of differences within classes, on the CPU: its upper
            triangle, row by row, D (D + 1) / 2, or where nothing else is wanted its diagonal alone, D.
    """

    mean: Tensor
    count: Tensor
    classes: Tensor
    domains: Tensor
    scatter: Tensor

    @classmethod
    def none(cls, width: int, full: bool, device: torch.device) -> "VPRPrototypes":
        """No prototypes of `width` dimensions; with `full`, all of the scatter will be kept, else its diagonal."""
        nothing = torch.zeros(0, dtype=torch.int64, device=device)
        scatter = torch.zeros(width * (width + 1) // 2 if full else width)
        return cls(torch.zeros(0, width, device=device), nothing, nothing, nothing, scatter)

    def plus(self, mean: Tensor, count: Tensor, label: int, domain: int) -> "VPRPrototypes":
        """With those of one more class: K' x D, and int64, K'."""
        return VPRPrototypes(
            torch.cat([self.mean, mean]),
            torch.cat([self.count, count]),
            torch.cat([self.classes, torch.full_like(count, label)]),
            torch.cat([self.domains, torch.full_like(count, domain)]),
            self.scatter,
        )

    def plus_scatter(self, rows: Tensor) -> "VPRPrototypes":
        """With the products of more rows, N x D, in the scatter; they are summed in double precision."""
        rows = rows.cpu().double()
        width = self.mean.shape[1]
        alone = len(self.scatter) == width
        added = rows.square().sum(0) if alone else (rows.T @ rows)[tuple(torch.triu_indices(width, width))]
        return replace(self, scatter=(self.scatter.double() + added).float())

    def of(self, domain: int) -> DomainPrototypes:
        """Those of one domain."""
        rows = self.domains == domain
        return DomainPrototypes(self.mean[rows], self.count[rows], self.classes[rows])

    @property
    def covariance(self) -> SharedCovariance:
        """What the classes of the first domain share."""
        return _covariance_of(self)

    def variances(self) -> Tensor:
        """Of each dimension around the class means of the first domain, D."""
        first = self.of(0)
        classes, means = first.class_means()
        between = (first.mean - means[torch.searchsorted(classes, first.classes)]).square()
        within = torch.from_numpy(self.covariance.diagonal()).to(first.mean)
        return within + (between * first.count[:, None]).sum(0) / first.count.sum()


@functools.lru_cache(maxsize=1)
def _covariance_of(prototypes: VPRPrototypes) -> SharedCovariance:
    """Of the first domain. The last one is remembered with its inverse, for the answers that follow a task.

    Here and not in the prototypes: it follows from them, so that it is nothing that a method carries on.
    """
    scatter, width = prototypes.scatter.double(), prototypes.mean.shape[1]
    if len(scatter) == width:
        dense = scatter.diag()
    else:
        row, column = torch.triu_indices(width, width)
        dense = scatter.new_zeros(width, width)
        dense[row, column] = dense[column, row] = scatter
    return SharedCovariance(np.zeros((0, width)), dense.numpy(), 0.0, float(prototypes.of(0).count.sum()))


def doubles(x: Tensor) -> Floats:
    """As the heart works on it."""
    return x.cpu().double().numpy()


def means_by_label(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The labels, int64, C, ascending, of `labels`, int64, N, and the mean of each one's rows of x, N x D: C x D."""
    classes, group = labels.unique(return_inverse=True)
    weight = functional.one_hot(group, len(classes)).T.to(x.dtype)
    return classes, weight / weight.sum(1, keepdim=True) @ x
