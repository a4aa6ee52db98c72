"""What a person should know before harm is done: classes that will be confused, photos in the wrong folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.covariance import RidgeInverse
from protoreplay.prototypes.prototype_head import scaled_softmax
from protoreplay.prototypes.sums import Floats, Labels

COLLISION = 0.1
"""Expected confusion of two classes from which a person is warned."""
WIDTH, ODD, GAUSSIAN_WEIGHT = 0.75, 0.04, 10.0
"""How classes overlap: how wide they are in units that the temperature of the probabilities says; the share of photos
that are of any class with the same chance; and for how many photos this counts beside those that are left out. Chosen
on training photos (docs/photos.md)."""
MANY_ALIKE = 3
"""Photos that are almost the same from which a person is told."""
MISPLACED = 0.95
"""Probability of another class from which a photo may be in the wrong folder."""


@dataclass(frozen=True)
class ClassCollision:
    """Two classes, and the share of their photos that will be taken for the other one."""

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


def expected_confusions(model: PhotoModel, of: Sequence[str] | None = None) -> Floats:
    """Shares of photos of classes, `of` (all if left out), that will be taken for each class: rows x K.

    The columns are in the order of `model.head.names`, and a class with itself has 0. All classes compete, as they do
    in an answer. Two estimates are averaged: what the taught photos say once they are left out, which is uncertain
    where they are few, and how much the Gaussians of the classes overlap. All are 0 where no photo can be left out.
    """
    names = model.head.names
    rows = np.array([names.index(name) for name in of], int) if of is not None else np.arange(len(names))
    left_out = model.left_out
    if left_out is None or len(names) < 2:
        return np.zeros((len(rows), len(names)))
    overlaps, _ = _overlaps(model, rows)
    gaussian = (1 - ODD) * overlaps / (1 + overlaps.sum(1, keepdims=True)) + ODD / len(names)
    photos = np.bincount(left_out.owners, left_out.votes, len(names))
    # A photo counts for every class with its probability, not for the class that it was taught as: this varies less.
    # Where photos of some classes cannot be left out, those of the others stand for them.
    probabilities = scaled_softmax(
        left_out.scores(model.head.calibration.shrink).astype(np.float32), model.head.calibration.temperature
    )
    weights = left_out.votes / photos[left_out.owners] * len(names) / np.count_nonzero(photos)
    answered = np.zeros((len(names), len(rows)))
    np.add.at(answered, probabilities.argmax(1), weights[:, None] * probabilities[:, rows])
    seen = photos[rows, None]
    shares: Floats = np.minimum((seen * answered.T + GAUSSIAN_WEIGHT * gaussian) / (seen + GAUSSIAN_WEIGHT), 1.0)
    shares[np.arange(len(rows)), rows] = 0.0
    return shares


def _overlaps(model: PhotoModel, rows: Labels) -> tuple[Floats, Floats]:
    """Shares of photos of some classes that are nearer to each other class than to their own, rows x K.

    And the same of the photos of each class, and these. Of few photos, means are uncertain and seem further apart than
    they are: this is taken off.
    """
    head, taught = model.head, model.taught
    products = taught.prototypes[rows] @ head.matrix[: len(head.names)].T.astype(np.float64)
    squares = head.squares.astype(np.float64)
    distances = np.maximum(squares[rows, None] + squares - 2 * products, 1e-12)
    # Shrunk prototypes move the border away from the one that is farther from the centre.
    moved = (1 - head.calibration.shrink) / 2 * (squares[rows, None] - squares)
    width = WIDTH * np.sqrt(distances * head.calibration.temperature) * math.sqrt(2)
    forth, back = (_erfc((distances / 2 + sign * moved) / width) / 2 for sign in (1, -1))
    forth[np.arange(len(rows)), rows] = back[np.arange(len(rows)), rows] = 0.0
    return forth, back


# SciPy has it for arrays, but importing that takes longer than this does for a thousand classes.
_erfc = np.vectorize(math.erfc, otypes=[float])


def find_collisions(model: PhotoModel, new: Sequence[str]) -> list[ClassCollision]:
    """Pairs of a new class and any other that will be confused, the worst first."""
    names = model.head.names
    if len(names) < 2:
        return []
    forth = expected_confusions(model, new)
    _, back = _overlaps(model, np.array([names.index(name) for name in new]))
    # Of thousands of classes, only few are near enough to be worth a second look.
    near = [names[k] for k in np.flatnonzero(((forth >= COLLISION / 4) | (back >= COLLISION / 2)).any(0))]
    returned = expected_confusions(model, near)
    found = []
    for column, other in enumerate(near):
        for row, one in enumerate(new):
            share = float(forth[row, names.index(other)] + returned[column, names.index(one)]) / 2
            if share >= COLLISION and one != other and (other not in new or one < other):
                found.append(ClassCollision(one, other, share))
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
