"""A sum of products of rows, kept as a triangle: what ridge regression and covariances are solved from.

The sum `G = X^T X` of rows X, N x D, is kept as the upper trapezoid R of at most min(N, D) rows with `R^T R = G`, which
a QR decomposition makes of the one before and the new rows. It says what G says and no more, has fewer numbers while
there are fewer rows than dimensions, and loses no digits to squaring. Everything is in double precision.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TriangularFactor:
    """The upper trapezoid R of a sum of products `R^T R`, row by row, without the zeros below its diagonal.

    Attributes:
        numbers: float64.
        rank: rows of the trapezoid.
    """

    numbers: Tensor
    rank: int

    @classmethod
    def none(cls, device: torch.device) -> "TriangularFactor":
        """Of no rows yet."""
        return cls(torch.zeros(0, dtype=torch.float64, device=device), 0)

    @classmethod
    def of(cls, rows: Tensor) -> "TriangularFactor":
        """Of `rows`, N x D."""
        return cls.none(rows.device).plus(rows)

    def plus(self, rows: Tensor) -> "TriangularFactor":
        """With the products of more rows, N x D."""
        return TriangularFactor.packed(reduced(torch.cat([self.dense(rows.shape[1]), rows.double()])))

    @classmethod
    def packed(cls, trapezoid: Tensor) -> "TriangularFactor":
        """From R itself, at most D x D."""
        rows, columns = torch.triu_indices(*trapezoid.shape, device=trapezoid.device)
        return cls(trapezoid[rows, columns], len(trapezoid))

    def dense(self, width: int) -> Tensor:
        """R, rank x `width`, float64."""
        trapezoid = self.numbers.new_zeros(self.rank, width)
        rows, columns = torch.triu_indices(self.rank, width, device=self.numbers.device)
        trapezoid[rows, columns] = self.numbers
        return trapezoid


def reduced(rows: Tensor) -> Tensor:
    """The upper trapezoid, at most D x D, of the same products as `rows`, N x D, float64."""
    trapezoid: Tensor = torch.linalg.qr(rows, mode="r").R
    return trapezoid


def ridge_solve(trapezoid: Tensor, ridge: float, right: Tensor) -> Tensor:
    """`(R^T R + ridge I)^-1 right`, by way of a matrix as large as the smaller side of R.

    Args:
        trapezoid: R, r x D, float64.
        ridge: above 0.
        right: D x K, float64.
    """
    rank, width = trapezoid.shape
    if rank < width:
        inner = trapezoid @ trapezoid.T
        inner.diagonal().add_(ridge)
        return (right - trapezoid.T @ positive_solve(inner, trapezoid @ right)) / ridge
    whole = trapezoid.T @ trapezoid
    whole.diagonal().add_(ridge)
    return positive_solve(whole, right)


def positive_solve(matrix: Tensor, right: Tensor) -> Tensor:
    """`matrix^-1 right` for a positive definite matrix, also where it is so only up to rounding."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if not failed:
        return torch.cholesky_solve(right, factor)
    values, vectors = torch.linalg.eigh(matrix)
    values = values.clamp(min=float(values[-1]) * torch.finfo(matrix.dtype).eps)
    solved: Tensor = vectors @ ((vectors.T @ right) / values[:, None])
    return solved
