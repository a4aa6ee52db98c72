"""What a person should know before harm is done: classes that will be confused, photos in the wrong folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from protoreplay.photos.model import Model
from protoreplay.prototypes.classifier import left_out, shared_scatter, softmax, weights
from protoreplay.prototypes.sums import Floats

COLLISION = 0.1
"""Expected confusion of two classes from which a person is warned."""
MISPLACED = 0.95
"""Probability of another class from which a photo may be in the wrong folder."""


@dataclass(frozen=True)
class Collision:
    """Two classes, and the share of their photos that will be taken for the other one where only these two compete."""

    one: str
    other: str
    confusion: float

    def __str__(self) -> str:
        """One line."""
        return f"'{self.one}' and '{self.other}' will be confused: about {self.confusion:.0%} of their photos"


@dataclass(frozen=True)
class Misplaced:
    """A photo of one class that looks like another."""

    photo: str
    taught: str
    looks_like: str
    probability: float

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.photo} looks like '{self.looks_like}' ({self.probability:.0%}), not like '{self.taught}': "
            "is it in the wrong folder?"
        )


def confusions(model: Model, of: Sequence[str] | None = None) -> Floats:
    """Expected confusion of classes, `of` (all if left out) x K, in the order of `model.head.names`; 0 with itself.

    Two Gaussians of the shared variances, widened by the calibrated temperature, overlap by this much at the border
    half-way between them. Of few photos, means are uncertain and seem further apart than they are: this is taken off.
    """
    names = model.head.names
    members = [model.concepts[name] for name in names]
    scatter, freedom = shared_scatter(members)
    weight = weights(scatter, freedom)
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


def collisions(model: Model, new: Sequence[str]) -> list[Collision]:
    """Pairs of a new class and any other that will be confused, the worst first."""
    names = model.head.names
    overlap = confusions(model, new)
    found = []
    for row, column in zip(*np.nonzero(overlap >= COLLISION), strict=True):
        one, other = new[row], names[column]
        if other not in new or one < other:
            found.append(Collision(one, other, float(overlap[row, column])))
    return sorted(found, key=lambda collision: -collision.confusion)


def misplaced(model: Model, taught: Mapping[str, tuple[Sequence[str], Floats]]) -> list[Misplaced]:
    """Photos just taught (names and features, N x D, by class) that look like another class once they are left out."""
    names = model.head.names
    members = [model.concepts[name] for name in names]
    taught = {name: photos for name, photos in taught.items() if model.concepts[name].count > 1 and len(photos[0])}
    if len(names) < 2 or not taught:
        return []
    photos = [photo for names_, _ in taught.values() for photo in names_]
    owners = np.repeat([names.index(name) for name in taught], [len(photos) for photos, _ in taught.values()])
    features = np.concatenate([features for _, features in taught.values()])
    means = np.stack([member.mean for member in members])
    distances, _ = left_out(members, means, weights(*shared_scatter(members)), features, owners)
    probabilities = softmax((-distances).astype(np.float32), 2 * model.head.calibration.temperature)
    found = []
    for photo, owner, row in zip(photos, owners, probabilities, strict=True):
        best = int(row.argmax())
        if best != owner and row[best] >= MISPLACED:
            found.append(Misplaced(photo, names[owner], names[best], float(row[best])))
    return found
