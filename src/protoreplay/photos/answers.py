"""What a model says of embedded photos."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.sums import Floats, rooted

BATCH = 128
"""Photos that are compared with many classes at once."""
MANY = 16
"""Wanted classes up to which finding one after the other is faster than sorting thousands."""


@dataclass(frozen=True)
class Choice:
    """A class that a photo may show.

    Attributes:
        label: its name.
        probability: calibrated, among the known classes.
        distance: squared distance from the prototype, in units of a typical photo's from its own class.
    """

    label: str
    probability: float
    distance: float


@dataclass(frozen=True)
class Answer:
    """What the classifier says of one photo.

    Attributes:
        photo: its path or number.
        label: the class; None for "I don't know" and where the photo could not be read.
        choices: the likeliest classes, best first.
        familiarity: how much it looks like anything taught; below 0 is "I don't know".
        off: how far from what a photo of the classes taught looks like; above 1 is "I don't know", and 0 is as usual
            (or where nothing can be refused).
        error: why it could not be read.
    """

    photo: str
    label: str | None
    choices: tuple[Choice, ...] = ()
    familiarity: float = 0.0
    off: float = 0.0
    error: str = ""


def stream_answers(photos: Iterable[EmbeddedPhoto], model: PhotoModel, top: int = 3) -> Iterator[Answer]:
    """Answers of a model to embedded photos; with many classes, several at once are much faster than one by one."""
    batch = BATCH if len(model.classes) > 256 else 8
    waiting: list[EmbeddedPhoto] = []
    for photo in photos:
        waiting.append(photo)
        if len(waiting) == batch:
            yield from answer_batch(waiting, model, top)
            waiting = []
    yield from answer_batch(waiting, model, top)


def answer_batch(photos: Sequence[EmbeddedPhoto], model: PhotoModel, top: int = 3) -> list[Answer]:
    """The answers of a model to some embedded photos, in order."""
    read = [photo for photo in photos if photo.features is not None]
    results = {id(photo): Answer(photo.name, None, error=photo.error) for photo in photos}
    if read:
        head = model.head
        scores, lengths = head.scores(stacked_features(read))
        probabilities, distances = head.probabilities(scores), head.distances(scores, lengths)
        threshold = head.threshold(model.unknown)
        familiar = head.familiarity(scores, lengths) - threshold
        # From the usual to the threshold is 1.
        step = head.calibration.familiar_mean - threshold
        off = np.maximum(1 - familiar / step, 0.0) if 0 < step < np.inf else np.zeros(len(read))
        # Where nothing can be refused, the threshold is at minus infinity.
        familiar = np.where(np.isfinite(familiar), familiar, 1.0)
        scale = head.calibration.noise or 1.0
        for row, photo in enumerate(read):
            best = best_first(scores[row], max(top, 1))
            choices = tuple(
                Choice(head.names[k], float(probabilities[row, k]), max(float(distances[row, k]), 0.0) / scale)
                for k in best[:top]
            )
            label = head.names[best[0]] if familiar[row] >= 0 else None
            results[id(photo)] = Answer(photo.name, label, choices, float(familiar[row]) / scale, float(off[row]))
    return [results[id(photo)] for photo in photos]


def nearest_thumbnail(photo: EmbeddedPhoto, model: PhotoModel) -> tuple[str, bytes] | None:
    """The kept thumbnail of the photo most like this one, with its class; None where none is kept."""
    best: tuple[float, str, int] | None = None
    for name, own in model.classes.items():
        keys = own.sums.keys.tolist()
        kept = [row for row, key in enumerate(keys) if key in own.thumbnails]
        if kept:
            distances = np.square(own.sums.rows[kept] - stacked_features([photo])).sum(1)
            row = int(distances.argmin())
            candidate = (float(distances[row]), name, keys[kept[row]])
            best = min(best, candidate) if best else candidate
    return (best[1], model.classes[best[1]].thumbnails[best[2]]) if best else None


def best_first(scores: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """Indices of the highest scores, best first; of equal ones the first."""
    if count > MANY:
        return np.argsort(-scores, kind="stable")[:count]
    rest, best = scores.copy(), []
    for _ in range(min(count, len(scores))):
        best.append(int(rest.argmax()))
        rest[best[-1]] = -np.inf
    return np.array(best, np.int64)


def stacked_features(photos: Sequence[EmbeddedPhoto]) -> Floats:
    """The rooted features, N x D, of the photos that could be read."""
    return rooted(np.stack([photo.features for photo in photos if photo.features is not None]))
