"""What a model keeps of one class of photos."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from protoreplay.prototypes.sums import ClassSums, Floats, Keys


@dataclass(frozen=True)
class PhotoClass:
    """A class of photos. Adding two is learning the photos of both.

    Attributes:
        sums: over the features of its photos.
        seen: uint64, ascending: a key of each photo, so that none is counted twice.
        thumbnails: of photos kept to be looked at, JPEG, by key.
    """

    sums: ClassSums
    seen: Keys
    thumbnails: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, features: Floats, keys: Sequence[int], thumbnails: Mapping[int, bytes] | None = None) -> Self:
        """The class of some photos: features N x D, one key each."""
        return cls(ClassSums.of(features, keys), np.sort(np.asarray(keys, np.uint64)), dict(thumbnails or {}))

    def __add__(self, other: "PhotoClass") -> "PhotoClass":
        seen = np.sort(np.concatenate([self.seen, other.seen]))
        return PhotoClass(self.sums + other.sums, seen, {**self.thumbnails, **other.thumbnails})

    @property
    def count(self) -> int:
        """How many photos were learned."""
        return self.sums.count

    def reduced(self, sample: int, thumbnails: int) -> "PhotoClass":
        """With at most so many sampled features and thumbnails: those of the lowest keys."""
        sums = self.sums.with_sample_of(sample)
        if sums is self.sums and len(self.thumbnails) <= thumbnails:
            return self
        kept = {key: self.thumbnails[key] for key in sorted(self.thumbnails)[:thumbnails]}
        return PhotoClass(sums, self.seen, kept)

    def stored_bytes(self) -> dict[str, int]:
        """What is kept, item by item."""
        sums = self.sums
        return {
            "prototype": sums.total.nbytes + sums.squares.nbytes + 8,
            "keys": self.seen.nbytes + sums.sample_keys.nbytes,
            "sample": sums.sample.nbytes,
            "thumbnails": sum(map(len, self.thumbnails.values())),
        }
