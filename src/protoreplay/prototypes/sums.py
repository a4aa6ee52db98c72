"""What is kept of a class's features: sums, which any order gives alike, and a few features to calibrate on."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]

SAMPLE = 10
"""Features kept of a class, at most."""
SAMPLES = 1000
"""Features kept of all classes together, where that leaves each of them one."""


def rooted(features: npt.NDArray[np.floating]) -> Floats:
    """Features, N x D, to signed square roots of unit length: rare strong activations count less. Zeros stay zeros."""
    roots = np.sqrt(np.abs(features), dtype=np.float64) * np.sign(features)
    return roots / np.maximum(np.linalg.norm(roots, axis=1, keepdims=True), 1e-12)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ClassSums:
    """A Gaussian class as sums over its features: adding two is summing over the features of both.

    Attributes:
        count: number of features.
        total: their sum, D.
        squares: sum of their squares, D.
        sample_keys: uint64, ascending: keys of those of `sample`: the lowest ones, which are the same in whatever order
            features came, and as good as random.
        sample: float16, M x D: some of the features.
    """

    count: int
    total: Floats
    squares: Floats
    sample_keys: Keys
    sample: npt.NDArray[np.float16]

    @classmethod
    def of(cls, features: Floats, keys: Sequence[int]) -> Self:
        """The sums of some features, N x D, with a key for each, N, by which they are drawn."""
        order = np.argsort(np.asarray(keys, np.uint64), kind="stable")
        # Summed in the order of keys, so that the same features give the same sums to the last bit.
        ranked = features[order].astype(np.float64)
        lowest = np.asarray(keys, np.uint64)[order[:SAMPLE]]
        return cls(len(keys), ranked.sum(0), np.square(ranked).sum(0), lowest, ranked[:SAMPLE].astype(np.float16))

    def __add__(self, other: "ClassSums") -> "ClassSums":
        keys = np.concatenate([self.sample_keys, other.sample_keys])
        lowest = np.argsort(keys, kind="stable")[:SAMPLE]
        return ClassSums(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            keys[lowest],
            np.concatenate([self.sample, other.sample])[lowest],
        )

    def with_sample_of(self, most: int) -> "ClassSums":
        """With at most so many sampled features: those of the lowest keys."""
        if len(self.sample_keys) <= most:
            return self
        return replace(self, sample_keys=self.sample_keys[:most], sample=self.sample[:most])

    @functools.cached_property
    def mean(self) -> Floats:
        """The prototype's mean, D."""
        return self.total / self.count

    @functools.cached_property
    def scatter(self) -> Floats:
        """Sum of squared distances from the mean in each dimension, D."""
        return np.maximum(self.squares - self.total * self.mean, 0.0)


def sample_size(classes: int) -> int:
    """Features to keep of each of so many classes."""
    return max(1, min(SAMPLE, SAMPLES // max(classes, 1)))
