"""The prototypes of `vpr`: means of features, domain by domain, and what the classes of the first one share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.prototypes.whitening import SquareMatrix


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


@dataclass(frozen=True)
class VPRPrototypes:
    """All prototypes, in front of the layer.

    Attributes:
        mean: K x D.
        count: int64, K: views that each was made of.
        classes: int64, K.
        domains: int64, K.
        scatter: of the first domain, the weighted sum of the products of differences within classes.
    """

    mean: Tensor
    count: Tensor
    classes: Tensor
    domains: Tensor
    scatter: SquareMatrix

    @classmethod
    def none(cls, width: int, scatter: SquareMatrix) -> "VPRPrototypes":
        """No prototypes of `width` dimensions, on the device of a `scatter` of nothing."""
        device = scatter.values.device
        nothing = torch.zeros(0, dtype=torch.int64, device=device)
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

    def plus_scatter(self, apart: Tensor, weight: float) -> "VPRPrototypes":
        """With more differences, ... x D, in the scatter."""
        return replace(self, scatter=self.scatter.plus_products(apart.flatten(0, -2), weight))

    def of(self, domain: int) -> DomainPrototypes:
        """Those of one domain."""
        rows = self.domains == domain
        return DomainPrototypes(self.mean[rows], self.count[rows], self.classes[rows])

    def covariance(self) -> SquareMatrix:
        """What the classes of the first domain share."""
        return self.scatter / self.of(0).count.sum()

    def variances(self) -> Tensor:
        """Of each dimension around the class means of the first domain, D."""
        first = self.of(0)
        classes, means = first.class_means()
        between = (first.mean - means[torch.searchsorted(classes, first.classes)]).square()
        return (self.scatter.diagonal() + (between * first.count[:, None]).sum(0)) / first.count.sum()


def means_by_label(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The labels, int64, C, ascending, of `labels`, int64, N, and the mean of each one's rows of x, N x D: C x D."""
    classes, group = labels.unique(return_inverse=True)
    weight = functional.one_hot(group, len(classes)).T.to(x.dtype)
    return classes, weight / weight.sum(1, keepdim=True) @ x
