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
        sums: of the features of its photos, 16 bits a number.
        seen: uint64, ascending: a key of each photo, so that none is counted twice.
        thumbnails: of photos kept to be looked at, JPEG, by key.
    """

    sums: ClassSums
    seen: Keys
    thumbnails: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        features: Floats,
        keys: Sequence[int],
        looks: Sequence[int] | None = None,
        thumbnails: Mapping[int, bytes] | None = None,
    ) -> Self:
        """The class of some photos: features N x D, one key each, and a perceptual hash each."""
        sums = ClassSums.of(features, keys, looks, kind=np.float16)
        return cls(sums, np.sort(np.asarray(keys, np.uint64)), dict(thumbnails or {}))

    def __add__(self, other: "PhotoClass") -> "PhotoClass":
        seen = np.sort(np.concatenate([self.seen, other.seen]))
        return PhotoClass(self.sums + other.sums, seen, {**self.thumbnails, **other.thumbnails})

    def without(self, key: int) -> "PhotoClass":
        """Without the photo of this key, which must be kept singly and not be the only one."""
        thumbnails = {other: picture for other, picture in self.thumbnails.items() if other != key}
        return PhotoClass(self.sums.without(key), self.seen[self.seen != np.uint64(key)], thumbnails)

    @property
    def count(self) -> int:
        """How many photos were learned."""
        return len(self.seen)

    def reduced(self, thumbnails: int) -> "PhotoClass":
        """With no more features than fit the bound, and at most so many thumbnails: those of the lowest keys."""
        sums = self.sums.reduced()
        if sums is self.sums and len(self.thumbnails) <= thumbnails:
            return self
        kept = {key: self.thumbnails[key] for key in sorted(self.thumbnails)[:thumbnails]}
        return PhotoClass(sums, self.seen, kept)

    def stored_bytes(self) -> dict[str, int]:
        """What is kept, item by item."""
        sums, others = self.sums, self.sums.others
        gaussian = others.mean.nbytes + others.factor.nbytes + 16 if others.weight else 0
        return {
            "features": sums.rows.nbytes,
            "gaussian": gaussian,
            "keys": self.seen.nbytes + sums.keys.nbytes + sums.looks.nbytes,
            "thumbnails": sum(map(len, self.thumbnails.values())),
        }
