"""Ridge regression to one column a class, task after task: the answer is that of one regression on all images."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.methods.factors import TriangularFactor, positive_solve, reduced


@dataclass(frozen=True)
class RidgeRegression:
    """All that the regression of Y, N x C, on X, N x D, takes from the rows: R with `R^T R = X^T X`, and A.

    A is what is left of Y when X is turned into R: `R^T A = X^T Y`. For every ridge the weights are
    `(X^T X + ridge I)^-1 X^T Y = R^T (R R^T + ridge I)^-1 A`.

    Attributes:
        factor: R, rank x D.
        targets: A, rank x C, float64; one column a class seen, ascending.
    """

    factor: TriangularFactor
    targets: Tensor

    @classmethod
    def none(cls, device: torch.device) -> "RidgeRegression":
        """Of no row yet."""
        return cls(TriangularFactor.none(device), torch.zeros(0, 0, dtype=torch.float64, device=device))

    def widened(self, old: Sequence[int], new: Sequence[int]) -> "RidgeRegression":
        """With columns for the classes `new` instead of `old`, both ascending; no row so far is of the added ones."""
        targets = self.targets.new_zeros(len(self.targets), len(new))
        targets[:, [new.index(label) for label in old]] = self.targets
        return RidgeRegression(self.factor, targets)

    def plus(self, rows: Tensor, columns: Tensor) -> "RidgeRegression":
        """With more rows, N x D, each of the class of one column (int64, N)."""
        width, count = rows.shape[1], self.targets.shape[1]
        before = torch.cat([self.factor.dense(width), self.targets], 1)
        added = torch.cat([rows.double(), functional.one_hot(columns, count).double()], 1)
        # Rows below the trapezoid of X hold what no weights can explain.
        both = reduced(torch.cat([before, added]))[:width]
        return RidgeRegression(TriangularFactor.packed(both[:, :width]), both[:, width:].contiguous())

    def weights(self, ridge: float, width: int) -> Tensor:
        """D x C, float64."""
        trapezoid = self.factor.dense(width)
        inner = trapezoid @ trapezoid.T
        inner.diagonal().add_(ridge)
        return trapezoid.T @ positive_solve(inner, self.targets)


def best_ridge(fitted: RidgeRegression, rows: Tensor, columns: Tensor, ridges: Sequence[float]) -> float:
    """The ridge with which `fitted` leaves the smallest squared error on held-out rows, N x D, of known columns."""
    trapezoid, rows = fitted.factor.dense(rows.shape[1]), rows.double()
    values, vectors = torch.linalg.eigh(trapezoid @ trapezoid.T)
    left, right = rows @ (trapezoid.T @ vectors), vectors.T @ fitted.targets
    wanted = functional.one_hot(columns, fitted.targets.shape[1]).double()
    values = values.clamp(min=0)
    errors = [(left @ (right / (values + ridge)[:, None]) - wanted).square().mean() for ridge in ridges]
    return ridges[int(torch.stack(errors).argmin())]
