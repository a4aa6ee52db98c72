"""The covariance that classes share, from what each of them keeps, and its inverse with a ridge.

With fewer rows R than dimensions D everything is done with R x R numbers, else with D x D.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from protoreplay.prototypes.sums import ClassSums, Floats, Rows
from protoreplay.prototypes.threads import one_blas_thread

CovarianceKind = Literal["full", "diagonal", "identity"]

_PIECE = 4096
"""Rows whose products are added at one time."""
_MANY = 4096
"""Rows beyond which products with an inverse are made with 32 bits, which takes half the time; answers have no more."""


class RidgeInverse(NamedTuple):
    """The inverse of a covariance with a ridge: `diag(flat) + sign * bend' bend`.

    Attributes:
        flat: D.
        sign: 1 or -1.
        bend: R x D.
    """

    flat: Floats
    sign: int
    bend: Floats

    def times(self, rows: Floats) -> Rows:
        """Each row, ... x D, times the inverse."""
        if not len(self.bend):
            return rows * self.flat
        number = rows.size // rows.shape[-1]
        if number > rows.shape[-1]:
            whole = self.sign * (self.bend.T @ self.bend) + np.diag(self.flat)
            return rows @ whole if number <= _MANY else rows.astype(np.float32) @ whole.astype(np.float32)
        return rows * self.flat + self.sign * ((rows @ self.bend.T) @ self.bend)

    def lengths(self, rows: Floats) -> Floats:
        """The product of each row, ... x D, with itself and the inverse."""
        return (np.square(rows) * self.flat).sum(-1) + self.sign * np.square(rows @ self.bend.T).sum(-1)  # type: ignore[no-any-return]


class Spectrum(NamedTuple):
    """A covariance in the directions in which it has anything.

    Attributes:
        values: eigenvalues, R.
        vectors: eigenvectors, R x D.
        coordinates: of the rows that it was made of, N x R; none where they are not known any more.
    """

    values: Floats
    vectors: Floats
    coordinates: Floats

    def inverse(self, ridge: float) -> RidgeInverse:
        """With `ridge` added in every direction."""
        width = self.vectors.shape[1]
        bend = np.sqrt(self.values / (self.values + ridge) / ridge)[:, None] * self.vectors
        return RidgeInverse(np.full(width, 1 / ridge), -1, bend)


@dataclass(frozen=True)
class SharedCovariance:
    """Scatter of classes around their means, which all of them share, divided by its degrees of freedom.

    Attributes:
        rows: R x D: their products add up to the scatter where there are fewer rows than dimensions; else none.
        dense: D x D: the scatter where there are more; else 0 x 0.
        even: scatter in every direction, besides.
        freedom: degrees of freedom; below 1 it counts as 1.
    """

    rows: Floats
    dense: Floats
    even: float
    freedom: float

    @classmethod
    def of_rows(cls, parts: Iterable[Floats], width: int, even: float, freedom: float) -> "SharedCovariance":
        """From rows, ... x D each, whose products add up to the scatter, but for `even`."""
        dense, waiting, number = np.zeros((0, 0)), [np.zeros((0, width))], 0
        for part in parts:
            waiting.append(part)
            number += len(part)
            if number >= (_PIECE if dense.size else max(width, 1)):
                rows = np.concatenate(waiting)
                dense = (dense if dense.size else np.zeros((width, width))) + rows.T @ rows
                waiting, number = waiting[:1], 0
        rows = np.concatenate(waiting)
        if dense.size:
            dense, rows = dense + rows.T @ rows, rows[:0]
        return cls(rows, dense, even, freedom)

    @classmethod
    def of_classes(cls, classes: Iterable[ClassSums], width: int) -> "SharedCovariance":
        """Of all that classes keep."""
        members = list(classes)
        parts = (member.scatter_rows() for member in members)
        freedom = sum(member.count for member in members) - len(members)
        return cls.of_rows(parts, width, sum(member.even_scatter for member in members), freedom)

    @property
    def width(self) -> int:
        """D."""
        return self.rows.shape[1] if not self.dense.size else len(self.dense)

    def plus_class(self, added: ClassSums, times: int = 1) -> "SharedCovariance":
        """With a class that was not in it; of a dense covariance, with -1 `times`, without one that was."""
        rows, even = added.scatter_rows(), self.even + times * added.even_scatter
        freedom = self.freedom + times * (added.count - 1)
        if not self.dense.size:
            return SharedCovariance.of_rows((self.rows, rows), self.width, even, freedom)
        return SharedCovariance(self.rows, self.dense + times * (rows.T @ rows), even, freedom)

    def diagonal(self) -> Floats:
        """Variances, D."""
        scatter = self.dense.diagonal() if self.dense.size else np.square(self.rows).sum(0)
        return (scatter + self.even) / max(self.freedom, 1.0)

    def mean_eigenvalue(self) -> float:
        """The mean variance over all directions; 0 where nothing has varied yet."""
        return self._mean_variance if self._mean_variance > 1e-12 else 0.0

    @functools.cached_property
    def _mean_variance(self) -> float:
        return float(self.diagonal().mean())

    @functools.cached_property
    def spectrum(self) -> Spectrum:
        """Without `even`, which is like a ridge."""
        freedom = max(self.freedom, 1.0)
        if self.dense.size:
            with one_blas_thread():
                values, vectors = np.linalg.eigh(self.dense / freedom)
            return Spectrum(np.maximum(values, 0), vectors.T, np.zeros((0, len(values))))
        with one_blas_thread():
            values, vectors = np.linalg.eigh(self.rows @ self.rows.T / freedom)
        kept = values > 1e-10 * max(values[-1], 1e-12) if len(values) else np.zeros(0, bool)
        values, vectors = values[kept], vectors[:, kept]
        roots = np.sqrt(values * freedom)
        return Spectrum(values, (vectors / roots).T @ self.rows, vectors * roots)

    def inverse(self, ridge: float, kind: CovarianceKind = "full") -> RidgeInverse:
        """With `ridge` added in every direction; of the diagonal alone, or of its mean alone, if so asked.

        `even` is in it. The last one is remembered, because it takes as long as everything else.
        """
        if (ridge, kind) not in self._last:
            self._last.clear()
            self._last[ridge, kind] = self._inverse(ridge, kind)
        return self._last[ridge, kind]

    @functools.cached_property
    def _last(self) -> dict[tuple[float, CovarianceKind], RidgeInverse]:
        return {}

    def _inverse(self, ridge: float, kind: CovarianceKind) -> RidgeInverse:
        none = np.zeros((0, self.width))
        if kind != "full":
            variances = self.diagonal()
            variances = np.full(self.width, variances.mean()) if kind == "identity" else variances
            return RidgeInverse(1 / (variances + ridge), 1, none)
        ridge += self.even / max(self.freedom, 1.0)
        if not self.dense.size:
            return self.spectrum.inverse(ridge)
        covariance = self.dense / max(self.freedom, 1.0)
        covariance.flat[:: self.width + 1] += ridge
        return RidgeInverse(np.zeros(self.width), 1, _triangular_inverse(np.linalg.cholesky(covariance)))


def _triangular_inverse(lower: Rows) -> Floats:
    """Of a lower triangle, D x D, by halves: a third of the arithmetic that a general inverse takes.

    SciPy has it too, but importing that takes longer than what is saved.
    """
    half = len(lower) // 2
    if half < 32:
        return np.linalg.inv(lower).astype(np.float64)
    found = np.zeros(lower.shape)
    found[:half, :half] = _triangular_inverse(lower[:half, :half])
    found[half:, half:] = _triangular_inverse(lower[half:, half:])
    found[half:, :half] = -found[half:, half:] @ lower[half:, :half] @ found[:half, :half]
    return found
