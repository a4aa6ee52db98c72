"""What a person should know before harm is done: classes that will be confused, photos in the wrong folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.covariance import RidgeInverse
from protoreplay.prototypes.sums import Floats

COLLISION = 0.1
"""Expected confusion of two classes from which a person is warned."""
MANY_ALIKE = 3
"""Photos that are almost the same from which a person is told."""
MISPLACED = 0.95
"""Probability of another class from which a photo may be in the wrong folder."""


@dataclass(frozen=True)
class ClassCollision:
    """Two classes, and the share of their photos that will be taken for the other one where only these two compete."""

    one: str
    other: str
    confusion: float

    def __str__(self) -> str:
        return f"'{self.one}' and '{self.other}' will be confused: about {self.confusion:.0%} of their photos"


@dataclass(frozen=True)
class MisplacedPhoto:
    """A photo of one class that looks like another."""

    photo: str
    taught: str
    looks_like: str
    probability: float

    def __str__(self) -> str:
        return (
            f"{self.photo} looks like '{self.looks_like}' ({self.probability:.0%}), not like '{self.taught}': "
            "is it in the wrong folder?"
        )


@dataclass(frozen=True)
class NearDuplicates:
    """A class of which many photos are almost the same; of a large class, as far as its photos are kept."""

    name: str
    photos: int
    different: int

    def __str__(self) -> str:
        if self.different == 1:
            return f"the {self.photos} photos of '{self.name}' are almost the same: teach some that differ"
        return (
            f"the {self.photos} photos of '{self.name}' are only {self.different} that differ, the others are almost "
            "the same as these: teach some that differ"
        )


def expected_confusions(model: PhotoModel, of: Sequence[str] | None = None) -> tuple[Floats, Floats]:
    """Expected confusion of classes, `of` (all if left out) x K, in the order of `model.head.names`; 0 with itself.

    The first are shares of photos of the row's class that are taken for the column's, the second the other way round.
    Two Gaussians of the shared covariance, widened by the calibrated temperature, overlap by this much at the border
    between them. Of few photos, means are uncertain and seem further apart than they are: this is taken off.
    """
    head, taught = model.head, model.taught
    names = head.names
    rows = np.array([names.index(name) for name in of], int) if of is not None else np.arange(len(names))
    products = taught.prototypes[rows] @ head.matrix[: len(names)].T.astype(np.float64)
    squares = head.squares.astype(np.float64)
    distances = np.maximum(squares[rows, None] + squares - 2 * products, 1e-12)
    # Shrunk prototypes move the border away from the one that is farther from the centre.
    moved = (1 - head.calibration.shrink) / 2 * (squares[rows, None] - squares)
    width = np.sqrt(distances * head.calibration.temperature)
    shares = np.vectorize(NormalDist().cdf, otypes=[float])
    forth, back = (shares(-(distances / 2 + sign * moved) / width) for sign in (1, -1))
    forth[np.arange(len(rows)), rows] = back[np.arange(len(rows)), rows] = 0.0
    return forth, back


def find_collisions(model: PhotoModel, new: Sequence[str]) -> list[ClassCollision]:
    """Pairs of a new class and any other that will be confused, the worst first."""
    names = model.head.names
    forth, back = expected_confusions(model, new)
    overlap = (forth + back) / 2
    found = []
    for row, column in zip(*np.nonzero(overlap >= COLLISION), strict=True):
        one, other = new[row], names[column]
        if other not in new or one < other:
            found.append(ClassCollision(one, other, float(overlap[row, column])))
    return sorted(found, key=lambda collision: -collision.confusion)


def find_misplaced(model: PhotoModel, taught: Mapping[str, Mapping[int, str]]) -> list[MisplacedPhoto]:
    """Photos just taught (names by key, by class) that look like another class once they are left out."""
    names = model.head.names
    photos = {key: (name, photo) for name, some in taught.items() for key, photo in some.items()}
    if len(names) < 2 or not photos:
        return []
    head = model.head
    bend = head.matrix[len(names) :].astype(np.float64)
    inverse = RidgeInverse(head.flat.astype(np.float64), head.sign, bend)
    plan = model.taught.plan(np.array(sorted(photos), np.uint64))
    left_out = plan.carried_out(inverse, noise=head.calibration.noise)
    if left_out is None:
        return []
    scores = left_out.scores(head.calibration.shrink).astype(np.float32)
    found = []
    for key, owner, row in zip(left_out.keys, left_out.owners, head.probabilities(scores), strict=True):
        best, (name, photo) = int(row.argmax()), photos.get(int(key), ("", ""))
        if name == names[owner] and best != owner and row[best] >= MISPLACED:
            found.append(MisplacedPhoto(photo, name, names[best], float(row[best])))
    order = {photo: number for number, (_, photo) in enumerate(photos.values())}
    return sorted(found, key=lambda one: order[one.photo])


def find_near_duplicates(model: PhotoModel, of: Sequence[str]) -> list[NearDuplicates]:
    """Of these classes, those whose photos are mostly almost the same."""
    found = []
    for name in of:
        labels = model.taught.groups[model.head.names.index(name)]
        largest, groups = int(np.bincount(labels).max()), len(np.unique(labels))
        if largest >= MANY_ALIKE and 2 * groups <= len(labels):
            found.append(NearDuplicates(name, len(labels), groups))
    return found
