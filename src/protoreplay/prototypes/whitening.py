"""Square matrices, dense or diagonal, and how one whitens: the covariance that classes share, or their variances alone.

Both kinds have the same verbs, so that what works with one works with the other.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class SquareMatrix(ABC):
    """D x D numbers, as far as they are kept: a covariance, a sum of products, or a linear layer.

    Attributes:
        values: those that are kept.
    """

    values: Tensor

    def __truediv__(self, count: Tensor) -> Self:
        return type(self)(self.values / count)

    @abstractmethod
    def diagonal(self) -> Tensor:
        """The numbers on the diagonal, D."""

    @abstractmethod
    def dense(self) -> Tensor:
        """All numbers, D x D."""

    @abstractmethod
    def times(self, x: Tensor) -> Tensor:
        """This matrix times every row of x, ... x D."""

    @abstractmethod
    def transposed_times(self, x: Tensor) -> Tensor:
        """The transposed matrix times every row of x, ... x D."""

    @abstractmethod
    def plus_products(self, rows: Tensor, weight: float) -> Self:
        """With the sum of the products of each row with itself, N x D, times `weight`."""

    @abstractmethod
    def removable_rows(self, rows: Tensor) -> Tensor:
        """Of rows, N x R x D, those whose outer products could be taken out of such a matrix again."""

    @abstractmethod
    def whitening(self, ridge: float) -> tuple[Self, Self]:
        """The layer behind which this covariance, with a ridge, is the identity; and this covariance's symmetric root.

        Args:
            ridge: mean eigenvalues that are added to the covariance in every direction.
        """

    def isotropic(self) -> "DiagonalMatrix":
        """The multiple of the identity that has the same mean diagonal."""
        diagonal = self.diagonal()
        return DiagonalMatrix(diagonal.mean().expand(len(diagonal)))

    def _level(self, ridge: float) -> Tensor:
        mean = self.diagonal().mean()
        # Of images that do not vary at all, every direction counts alike.
        return ridge * torch.where(mean > 0, mean, 1.0)


class DenseMatrix(SquareMatrix):
    """All of a matrix: `values` are D x D."""

    def diagonal(self) -> Tensor:
        """The numbers on the diagonal, D."""
        return self.values.diagonal()

    def dense(self) -> Tensor:
        """The values, D x D."""
        return self.values

    def times(self, x: Tensor) -> Tensor:
        """One matrix product, ... x D."""
        return x @ self.values.T

    def transposed_times(self, x: Tensor) -> Tensor:
        """One matrix product, ... x D."""
        return x @ self.values

    def plus_products(self, rows: Tensor, weight: float) -> Self:
        """The outer product of each row with itself is added."""
        return type(self)(self.values + weight * (rows.T @ rows))

    def removable_rows(self, rows: Tensor) -> Tensor:
        """All rows: their outer products were added as they are."""
        return rows

    def whitening(self, ridge: float) -> tuple[Self, Self]:
        """Both symmetric, from the eigenvectors."""
        level = self._level(ridge)
        values, vectors = torch.linalg.eigh(self.values)
        values = values.clamp(min=0)
        layer = (vectors * (values + level).rsqrt()) @ vectors.T
        return type(self)(layer), type(self)((vectors * values.sqrt()) @ vectors.T)


class DiagonalMatrix(SquareMatrix):
    """The diagonal alone: `values` are D, everything else counts as 0."""

    def diagonal(self) -> Tensor:
        """The values, D."""
        return self.values

    def dense(self) -> Tensor:
        """With zeros beside the diagonal, D x D."""
        return self.values.diag()

    def times(self, x: Tensor) -> Tensor:
        """Each dimension times its own number, ... x D."""
        return x * self.values

    def transposed_times(self, x: Tensor) -> Tensor:
        """The same as `times`."""
        return self.times(x)

    def plus_products(self, rows: Tensor, weight: float) -> Self:
        """The square of each dimension is added."""
        return type(self)(self.values + weight * rows.square().sum(0))

    def removable_rows(self, rows: Tensor) -> Tensor:
        """No row: of a row only its squares were added."""
        return rows[:, :0]

    def whitening(self, ridge: float) -> tuple[Self, Self]:
        """Each dimension by itself."""
        return type(self)((self.values + self._level(ridge)).rsqrt()), type(self)(self.values.sqrt())
