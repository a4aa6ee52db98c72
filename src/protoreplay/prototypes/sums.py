"""What is kept of a class: its features while they are few, then some of them and a Gaussian of all the others.

Any order gives the same sums, and what is kept of a class never depends on another class. So classes can be added,
merged and forgotten exactly, and the covariance that classes share is the sum of what each of them keeps.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from protoreplay.prototypes.threads import one_blas_thread

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.floating]
Labels = npt.NDArray[np.int64]

SINGLES, RANK = 15, 15
"""Of more features than both together, the first number is kept singly, and the others as a Gaussian of as many
directions as the second: at 2,280 features of 16 bits, 155 KB a class. docs/photos.md has what that costs."""
_PORTION = 500
"""Features that are summed up at one time: what that takes grows with their square."""


def rooted(features: npt.NDArray[np.floating]) -> Floats:
    """Features, N x D, to signed square roots of unit length: rare strong activations count less. Zeros stay zeros."""
    roots = np.sqrt(np.abs(features), dtype=np.float64) * np.sign(features)
    return roots / np.maximum(np.linalg.norm(roots, axis=1, keepdims=True), 1e-12)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class GaussianSum:
    """Features that are no longer kept singly, as one Gaussian.

    Attributes:
        weight: of all of them together.
        mean: D.
        factor: R x D: the products of its rows add up to the covariance, but for `even`.
        even: variance in every direction that `factor` does not have.
    """

    weight: float
    mean: Floats
    factor: Rows
    even: float

    @classmethod
    def nothing(cls, width: int, kind: npt.DTypeLike) -> Self:
        """Of no features."""
        return cls(0.0, np.zeros(width), np.zeros((0, width), kind), 0.0)

    def scatter_rows(self, mean: Floats) -> Floats:
        """Rows, R + 1 x D, whose products add up to the scatter around `mean`, D, but for `even`."""
        rows = np.concatenate([self.factor.astype(np.float64), (self.mean - mean)[None]])
        return np.sqrt(self.weight) * rows  # type: ignore[no-any-return]

    def plus(self, rows: Rows, weights: Floats, rank: int) -> "GaussianSum":
        """With more features, N x D, and at most `rank` directions."""
        found = self
        for begin in range(0, len(rows), _PORTION):
            some, own = rows[begin : begin + _PORTION], weights[begin : begin + _PORTION]
            found = found._joined(_weighted_mean(some, own), float(own.sum()), _around(some, own), 0.0, rank)
        return found

    def plus_gaussian(self, other: "GaussianSum", rank: int) -> "GaussianSum":
        """With all that another one has, and at most `rank` directions."""
        factor = np.sqrt(other.weight) * other.factor.astype(np.float64)
        return self._joined(other.mean, other.weight, factor, other.weight * other.even, rank)

    def of_rank(self, rank: int) -> "GaussianSum":
        """The same with at most `rank` directions."""
        factor, dropped = main_rows(self.factor.astype(np.float64), rank)
        return GaussianSum(
            self.weight, self.mean, factor.astype(self.factor.dtype), self.even + dropped / len(self.mean)
        )

    def _joined(self, mean: Floats, weight: float, scatter: Floats, even: float, rank: int) -> "GaussianSum":
        if not weight:
            return self
        total = self.weight + weight
        rows = scatter
        if self.weight:
            apart = np.sqrt(self.weight * weight / total) * (mean - self.mean)
            rows = np.concatenate([np.sqrt(self.weight) * self.factor.astype(np.float64), scatter, apart[None]])
        factor, dropped = main_rows(rows / np.sqrt(total), rank)
        left = (self.weight * self.even + even) / total + dropped / len(mean)
        middle = (self.weight * self.mean + weight * mean) / total
        return GaussianSum(total, middle, factor.astype(self.factor.dtype), left)


def main_rows(rows: Floats, rank: int) -> tuple[Floats, float]:
    """At most `rank` rows with the main part of the products of `rows`, N x D, and the trace of what is left out."""
    if len(rows) <= rank:
        return rows, 0.0
    with one_blas_thread():
        if len(rows) <= rows.shape[1]:
            values, vectors = np.linalg.eigh(rows @ rows.T)
            every = vectors.T @ rows
        else:
            values, vectors = np.linalg.eigh(rows.T @ rows)
            every = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    first = max(len(values) - rank, 0)
    return every[first:], float(np.maximum(values[:first], 0).sum())


def _weighted_mean(rows: Rows, weights: Floats) -> Floats:
    return weights @ rows.astype(np.float64) / weights.sum()  # type: ignore[no-any-return]


def _added_up(places: npt.NDArray[np.int64], weights: Floats) -> Floats:
    """The sum of the weights at each place."""
    return np.bincount(places, weights).astype(np.float64)


def _around(rows: Rows, weights: Floats) -> Floats:
    return np.sqrt(weights)[:, None] * (rows.astype(np.float64) - _weighted_mean(rows, weights))


@dataclass(frozen=True)
class ClassSums:
    """A class as its features: adding two gives the class of the features of both.

    Attributes:
        keys: uint64, M, ascending: of the features that are kept singly, those with the lowest keys.
        looks: uint64, M: a perceptual hash of what each is of; 0 where none is known.
        weights: float64, M: how often each counts.
        rows: M x D, the features, rounded to their kind of number when they came and never again.
        others: of all other features.
    """

    keys: Keys
    looks: Keys
    weights: Floats
    rows: Rows
    others: GaussianSum

    @classmethod
    def of(
        cls,
        features: Floats,
        keys: Sequence[int] | Keys,
        looks: Sequence[int] | Keys | None = None,
        weights: Floats | None = None,
        kind: npt.DTypeLike = np.float64,
    ) -> Self:
        """The class of some features, N x D, with a key each, N; features of the same key must be the same.

        Args:
            features: N x D.
            keys: N.
            looks: a perceptual hash each, N.
            weights: N; 1 each if left out.
            kind: of number that features are kept as.
        """
        unique, first, place = np.unique(np.asarray(keys, np.uint64), return_index=True, return_inverse=True)
        each = np.ones(len(features)) if weights is None else np.asarray(weights, np.float64)
        seen = np.zeros(len(unique), np.uint64) if looks is None else np.asarray(looks, np.uint64)[first]
        rows = features[first].astype(kind)
        return cls(unique, seen, _added_up(place, each), rows, GaussianSum.nothing(rows.shape[1], kind))

    def __add__(self, other: "ClassSums") -> "ClassSums":
        keys = np.concatenate([self.keys, other.keys])
        unique, first, place = np.unique(keys, return_index=True, return_inverse=True)
        return ClassSums(
            unique,
            np.concatenate([self.looks, other.looks])[first],
            _added_up(place, np.concatenate([self.weights, other.weights])),
            np.concatenate([self.rows, other.rows])[first],
            self.others.plus_gaussian(other.others, self.rows.shape[1]),  # `reduced` drops directions, not this
        )

    def without(self, key: int) -> "ClassSums":
        """Without the feature of this key, which must be kept singly."""
        stay = self.keys != np.uint64(key)
        return ClassSums(self.keys[stay], self.looks[stay], self.weights[stay], self.rows[stay], self.others)

    def reduced(self, singles: int = SINGLES, rank: int = RANK) -> "ClassSums":
        """With at most `singles` features, those of the lowest keys, and `rank` directions of all the others."""
        if not self.others.weight and len(self.keys) <= singles + rank:
            return self
        if len(self.keys) > singles:
            others = self.others.plus(self.rows[singles:], self.weights[singles:], rank)
        elif len(self.others.factor) > rank:
            others = self.others.of_rank(rank)
        else:
            return self
        first = (self.keys[:singles], self.looks[:singles], self.weights[:singles], self.rows[:singles])
        return ClassSums(*first, others)

    @functools.cached_property
    def groups_by_nearness(self) -> dict[float | None, Labels]:
        """What `near_duplicates.class_groups` has found."""
        return {}

    @functools.cached_property
    def count(self) -> float:
        """The weight of all features."""
        return float(self.weights.sum()) + self.others.weight

    @functools.cached_property
    def mean(self) -> Floats:
        """The prototype's mean, D."""
        total = self.weights @ self.rows.astype(np.float64) + self.others.weight * self.others.mean
        return total / self.count

    @property
    def apart(self) -> Floats:
        """The features that are kept singly, from the mean, M x D."""
        return self.rows.astype(np.float64) - self.mean

    @property
    def even_scatter(self) -> float:
        """Scatter around the mean that `scatter_rows` does not have, in every direction."""
        return self.others.weight * self.others.even

    @property
    def scatter_size(self) -> int:
        """How many rows `scatter_rows` has: first those of the features that are kept singly."""
        return len(self.keys) + (len(self.others.factor) + 1 if self.others.weight else 0)

    def scatter_rows(self) -> Floats:
        """Rows, R x D, whose products add up to the scatter around the mean."""
        own = np.sqrt(self.weights)[:, None] * self.apart
        return np.concatenate([own, self.others.scatter_rows(self.mean)]) if self.others.weight else own
