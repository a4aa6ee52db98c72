"""What is kept of a class: sums, which any order of photos gives alike, and a few features to calibrate on."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
class Concept:
    """A class as sums over its photos. Adding two concepts is learning the photos of both.

    Attributes:
        count: number of photos.
        total: sum of their features, D.
        squares: sum of the squares of their features, D.
        seen: uint64, ascending: a key of each photo, so that none is counted twice.
        sample_keys: uint64, ascending: keys of the photos of `sample`: the lowest ones, which are the same in whatever
            order photos came, and as good as random.
        sample: float16, M x D: features of these photos.
        thumbnails: of photos kept to be looked at, JPEG, by key.
    """

    count: int
    total: Floats
    squares: Floats
    seen: Keys
    sample_keys: Keys
    sample: npt.NDArray[np.float16]
    thumbnails: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, features: Floats, keys: Sequence[int], thumbnails: Mapping[int, bytes] | None = None) -> Self:
        """The concept of some photos: features N x D, one key each."""
        order = np.argsort(np.asarray(keys, np.uint64), kind="stable")
        ordered = np.asarray(keys, np.uint64)[order]
        # Summed in the order of keys, so that the same photos give the same sums to the last bit.
        ranked = features[order].astype(np.float64)
        sample = ranked[:SAMPLE].astype(np.float16)
        total, squares = ranked.sum(0), np.square(ranked).sum(0)
        return cls(len(keys), total, squares, ordered, ordered[:SAMPLE], sample, dict(thumbnails or {}))

    def __add__(self, other: "Concept") -> "Concept":
        """Both."""
        keys = np.concatenate([self.sample_keys, other.sample_keys])
        lowest = np.argsort(keys, kind="stable")[:SAMPLE]
        return Concept(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            np.sort(np.concatenate([self.seen, other.seen])),
            keys[lowest],
            np.concatenate([self.sample, other.sample])[lowest],
            {**self.thumbnails, **other.thumbnails},
        )

    def reduced(self, sample: int, thumbnails: int) -> "Concept":
        """With at most so many sampled features and thumbnails: those of the lowest keys."""
        if len(self.sample_keys) <= sample and len(self.thumbnails) <= thumbnails:
            return self
        kept = {key: self.thumbnails[key] for key in sorted(self.thumbnails)[:thumbnails]}
        return replace(self, sample_keys=self.sample_keys[:sample], sample=self.sample[:sample], thumbnails=kept)

    @functools.cached_property
    def mean(self) -> Floats:
        """The prototype's mean, D."""
        return self.total / self.count

    @functools.cached_property
    def scatter(self) -> Floats:
        """Sum of squared distances from the mean in each dimension, D."""
        return np.maximum(self.squares - self.total * self.mean, 0.0)

    @property
    def bytes(self) -> dict[str, int]:
        """What is kept, item by item."""
        return {
            "prototype": self.total.nbytes + self.squares.nbytes + 8,
            "keys": self.seen.nbytes + self.sample_keys.nbytes,
            "sample": self.sample.nbytes,
            "thumbnails": sum(map(len, self.thumbnails.values())),
        }


def sample_size(classes: int) -> int:
    """Features to keep of each of so many classes."""
    return max(1, min(SAMPLE, SAMPLES // max(classes, 1)))
