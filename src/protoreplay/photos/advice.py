"""What a person should know before harm is done: classes that will be confused, photos in the wrong folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.prototype_head import dimension_weights, left_out_distances, scaled_softmax, shared_scatter
from protoreplay.prototypes.sums import Floats

COLLISION = 0.1
"""Expected confusion of two classes from which a person is warned."""
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


def expected_confusions(model: PhotoModel, of: Sequence[str] | None = None) -> Floats:
    """Expected confusion of classes, `of` (all if left out) x K, in the order of `model.head.names`; 0 with itself.

    Two Gaussians of the shared variances, widened by the calibrated temperature, overlap by this much at the border
    half-way between them. Of few photos, means are uncertain and seem further apart than they are: this is taken off.
    """
    names = model.head.names
    members = [model.classes[name].sums for name in names]
    scatter, freedom = shared_scatter(members)
    weight = dimension_weights(scatter, freedom)
    root = np.sqrt(weight)
    means = np.stack([member.mean for member in members]) * root
    rows = np.array([names.index(name) for name in of], int) if of is not None else np.arange(len(names))
    squares = np.square(means).sum(1)
    distances = squares[rows, None] + squares - 2 * means[rows] @ means.T
    noise = float((scatter * weight).sum()) / max(freedom, 1)
    uncertain = np.array([noise / member.count for member in members])
    distances = np.maximum(distances - uncertain[rows, None] - uncertain, 0)
    normal = NormalDist()
    half = 0.5 / math.sqrt(model.head.calibration.temperature)
    overlap = np.vectorize(normal.cdf, otypes=[float])(-half * np.sqrt(distances))
    overlap[np.arange(len(rows)), rows] = 0.0
    return overlap  # type: ignore[no-any-return]


def find_collisions(model: PhotoModel, new: Sequence[str]) -> list[ClassCollision]:
    """Pairs of a new class and any other that will be confused, the worst first."""
    names = model.head.names
    overlap = expected_confusions(model, new)
    found = []
    for row, column in zip(*np.nonzero(overlap >= COLLISION), strict=True):
        one, other = new[row], names[column]
        if other not in new or one < other:
            found.append(ClassCollision(one, other, float(overlap[row, column])))
    return sorted(found, key=lambda collision: -collision.confusion)


def find_misplaced(model: PhotoModel, taught: Mapping[str, tuple[Sequence[str], Floats]]) -> list[MisplacedPhoto]:
    """Photos just taught (names and features, N x D, by class) that look like another class once they are left out."""
    names = model.head.names
    members = [model.classes[name].sums for name in names]
    taught = {name: photos for name, photos in taught.items() if model.classes[name].count > 1 and len(photos[0])}
    if len(names) < 2 or not taught:
        return []
    photos = [photo for names_, _ in taught.values() for photo in names_]
    owners = np.repeat([names.index(name) for name in taught], [len(photos) for photos, _ in taught.values()])
    features = np.concatenate([features for _, features in taught.values()])
    means = np.stack([member.mean for member in members])
    distances, _ = left_out_distances(members, means, dimension_weights(*shared_scatter(members)), features, owners)
    probabilities = scaled_softmax((-distances).astype(np.float32), 2 * model.head.calibration.temperature)
    found = []
    for photo, owner, row in zip(photos, owners, probabilities, strict=True):
        best = int(row.argmax())
        if best != owner and row[best] >= MISPLACED:
            found.append(MisplacedPhoto(photo, names[owner], names[best], float(row[best])))
    return found
