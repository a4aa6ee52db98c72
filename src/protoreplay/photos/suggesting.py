"""Which photos to label next: those that stand for the most photos of which the model is unsure.

Each photo counts by how unsure the model is of it. A photo stands for others by how near it is to them, and what is
taught already stands for photos, too. The photo that adds most is suggested, then the one that adds most beside it,
and so on: so each is unsure, unlike what is known, and the only one of its cluster. What was tried: docs/photo-
tools.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from protoreplay.core.errors import UserError
from protoreplay.photos.answers import Answer, answer_batch, stacked_features
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_model import PhotoModel

REACH = 0.25
"""How far a photo stands for others, in mean squared distances between two photos; chosen on training photos."""
MOST_COMPARED = 4000
"""Photos that are compared with each other: the most unsure ones."""
LEAST_UNSURE = 1e-3
"""Even a photo of which the model is quite sure counts a little."""
ROUNDING = 1e-5
"""Squared distance below which two photos are the same."""
BESIDE = 0.5
"""Nearness from which one photo can be said to be like another."""

Nearness = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PhotoSuggestion:
    """A photo to label.

    Attributes:
        answer: what the model says of it now.
        unsure: 0 to 1: how little the likeliest class is ahead of the next, and 1 for "I don't know".
        like_it: photos that are more like it than like anything suggested before or taught.
    """

    answer: Answer
    unsure: float
    like_it: int

    def __str__(self) -> str:
        first, *others = self.answer.choices
        if self.answer.label is None:
            why = f"unknown, closest is {first.label}"
        elif others:
            why = f"{first.label} {first.probability:.0%} or {others[0].label} {others[0].probability:.0%}"
        else:
            why = f"{first.label} {first.probability:.0%}"
        like = f", {self.like_it} like it" if self.like_it else ""
        return f"{self.answer.photo}: {why}{like}"


def suggest_photos(model: PhotoModel, photos: Iterable[EmbeddedPhoto], count: int = 10) -> list[PhotoSuggestion]:
    """Photos to label next, the most useful first; those that were taught, or could not be read, are passed over."""
    if count < 1:
        raise UserError(f"count={count}: at least 1")
    taught = np.concatenate([own.seen for own in model.classes.values()]) if model.classes else np.zeros(0, np.uint64)
    known = set(taught.tolist())
    once = {photo.key: photo for photo in photos if photo.features is not None and photo.key not in known}
    fresh = list(once.values())
    if not fresh:
        return []
    answers = answer_batch(fresh, model, top=2)
    unsure = np.array([_unsure(answer) for answer in answers], np.float32)
    if len(fresh) > MOST_COMPARED:
        chosen = np.sort(np.argsort(-unsure, kind="stable")[:MOST_COMPARED])
        fresh, answers, unsure = [fresh[i] for i in chosen], [answers[i] for i in chosen], unsure[chosen]
    near, covered = nearness(stacked_features(fresh), model)
    picked, gathered = most_added(unsure, near, covered, min(count, len(fresh)))
    return [PhotoSuggestion(answers[i], float(unsure[i]), like) for i, like in zip(picked, gathered, strict=True)]


def nearness(features: npt.NDArray[np.float64], model: PhotoModel) -> tuple[Nearness, npt.NDArray[np.float32]]:
    """Of N photos with each other, N x N, and with the nearest photo that is taught, N: 1 is the same, 0 far away."""
    rows = features.astype(np.float32)
    kept = [own.sums.rows.astype(np.float32) for own in model.classes.values()]
    between = _distances(rows, rows)
    # Photos that are all the same have no typical distance; then any will do.
    scale = np.float32(REACH * max(float(between.mean()), 1e-3))
    covered = np.exp(-_distances(rows, np.concatenate(kept)) / scale).max(1)
    np.divide(between, -scale, out=between)
    return np.exp(between, out=between), covered


def most_added(
    weights: npt.NDArray[np.float32], near: Nearness, covered: npt.NDArray[np.float32], count: int
) -> tuple[list[int], list[int]]:
    """The photos that add most to what is covered, one after the other, and how many others each of them gathers."""
    picked: list[int] = []
    gathered: list[int] = []
    covered = covered.copy()
    for _ in range(count):
        gain = weights @ np.maximum(near - covered[:, None], 0)
        gain[picked] = -1
        best = int(gain.argmax())
        if gain[best] <= 0:
            break  # the rest are the same as what is picked or taught
        own = near[:, best]
        picked.append(best)
        gathered.append(int(((own > covered) & (own >= BESIDE)).sum()) - 1)
        covered = np.maximum(covered, own)
    return picked, [max(like, 0) for like in gathered]


def link_suggestions(suggestions: Sequence[PhotoSuggestion], folder: Path) -> list[Path]:
    """A folder of symbolic links to the suggested photos, numbered; one with files in it is refused."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already and not empty: give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    links = []
    for number, one in enumerate(suggestions, 1):
        photo = Path(one.answer.photo).absolute()
        links.append(folder / f"{number:03}-{photo.name[-200:]}")
        links[-1].symlink_to(photo)
    return links


def _unsure(answer: Answer) -> float:
    if answer.label is None:
        return 1.0
    first, *others = answer.choices
    return max(1 - (first.probability - (others[0].probability if others else 0.0)), LEAST_UNSURE)


def _distances(one: Nearness, other: Nearness) -> Nearness:
    squares = np.square(one).sum(1)[:, None] + np.square(other).sum(1)
    found = squares - 2 * one @ other.T
    found[found < ROUNDING] = 0
    return found  # type: ignore[no-any-return]
