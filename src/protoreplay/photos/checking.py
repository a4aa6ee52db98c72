"""What is wrong with a folder of photos, before it is taught: nothing here changes a model or a file."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protoreplay.photos import advice
from protoreplay.photos.answers import stacked_features
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.near_duplicates import ALIKE, NEAR, near_duplicate_groups
from protoreplay.prototypes.taught import FEWEST_ASKED

FEW = 5
"""Photos that differ, below which a class has too few."""


@dataclass(frozen=True)
class FolderFinding:
    """One thing that a person should look at.

    Attributes:
        kind: `unreadable`, `two classes`, `alike in two classes`, `misplaced`, `alike`, `too few` or `confused`.
        text: what, in one line.
        photos: which.
        classes: which.
    """

    kind: str
    text: str
    photos: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def as_json(self) -> str:
        """One object."""
        about = {"kind": self.kind, "text": self.text, "photos": self.photos, "classes": self.classes}
        return json.dumps(about, ensure_ascii=False)


def check_photos(
    encoder: str, fingerprint: str, photos: Mapping[str, Iterable[EmbeddedPhoto]], few: int = FEW
) -> list[FolderFinding]:
    """What to look at in photos by class, the gravest first.

    Args:
        encoder: the name of what embedded them; it decides which features are almost the same.
        fingerprint: of the encoder.
        photos: by class, with keys.
        few: photos that differ, below which a class has too few.
    """
    found: list[FolderFinding] = []
    read: dict[str, list[EmbeddedPhoto]] = {}
    for name, some in photos.items():
        read[name] = []
        for photo in some:
            if photo.features is None:
                found.append(FolderFinding("unreadable", f"{photo.name}: {photo.error}", (photo.name,), (name,)))
            else:
                read[name].append(photo)
    near = NEAR if encoder.startswith("lite") else None
    found += _in_two_classes(read)
    found += _alike_in_two_classes(read)
    filled = {name: _once(some) for name, some in read.items() if some}
    if filled:
        model = _model_of(encoder, fingerprint, filled)
        found += _misplaced(model, filled)
        for name, some in read.items():
            found += _alike(name, some, near)
        found += [_confused(one) for one in advice.find_collisions(model, list(filled))] if len(filled) > 1 else []
    for name, some in read.items():
        found += _too_few(name, _once(some), near, few)
    return found


def _once(photos: Sequence[EmbeddedPhoto]) -> list[EmbeddedPhoto]:
    return list({photo.key: photo for photo in reversed(photos)}.values())[::-1]


def _model_of(encoder: str, fingerprint: str, photos: Mapping[str, Sequence[EmbeddedPhoto]]) -> PhotoModel:
    """Of all photos kept singly, whatever their number: each of them can be left out."""
    classes = {}
    for name, some in photos.items():
        rows = stacked_features(some)
        classes[name] = PhotoClass.of(rows, [photo.key for photo in some], [photo.look for photo in some])
    width = next(iter(classes.values())).sums.rows.shape[1]
    return PhotoModel(encoder, fingerprint, width, classes=classes)


def _in_two_classes(read: Mapping[str, Sequence[EmbeddedPhoto]]) -> Iterator[FolderFinding]:
    places: dict[int, list[tuple[str, str]]] = {}
    for name, some in read.items():
        for photo in some:
            places.setdefault(photo.key, []).append((name, photo.name))
    for where in places.values():
        classes = tuple(dict.fromkeys(name for name, _ in where))
        if len(classes) > 1:
            photos = tuple(photo for _, photo in where)
            told = " and ".join(f"'{name}'" for name in classes)
            yield FolderFinding("two classes", f"the same photo is in {told}: {', '.join(photos)}", photos, classes)


def _alike_in_two_classes(read: Mapping[str, Sequence[EmbeddedPhoto]]) -> Iterator[FolderFinding]:
    """Photos that look almost the same; those that are the same are told of already."""
    every = [(name, photo) for name, some in read.items() for photo in some if photo.look]
    looks = np.array([photo.look for _, photo in every], np.uint64)
    for row, (name, photo) in enumerate(every):
        for other in np.flatnonzero(np.bitwise_count(looks[row + 1 :] ^ looks[row]) <= ALIKE // 2) + row + 1:
            their_name, theirs = every[other]
            if their_name != name and theirs.key != photo.key:
                yield FolderFinding(
                    "alike in two classes",
                    f"{photo.name} ('{name}') and {theirs.name} ('{their_name}') are almost the same photo",
                    (photo.name, theirs.name),
                    (name, their_name),
                )


def _misplaced(model: PhotoModel, read: Mapping[str, Sequence[EmbeddedPhoto]]) -> Iterator[FolderFinding]:
    everything = [(name, photo) for name, some in read.items() for photo in some]
    # So few are left out at once that none is passed over.
    portion = FEWEST_ASKED // 2
    for start in range(0, len(everything), portion):
        asked: dict[str, dict[int, str]] = {}
        for name, photo in everything[start : start + portion]:
            asked.setdefault(name, {})[photo.key] = photo.name
        for one in advice.find_misplaced(model, asked):
            yield FolderFinding("misplaced", str(one), (one.photo,), (one.taught, one.looks_like))


def _alike(name: str, photos: Sequence[EmbeddedPhoto], near: float | None) -> Iterator[FolderFinding]:
    if len(photos) < 2:
        return
    labels = _groups(photos, near)
    for label in np.unique(labels):
        group = tuple(photos[i].name for i in np.flatnonzero(labels == label).tolist())
        if len(group) > 1:
            text = f"{len(group)} photos of '{name}' are almost the same: {', '.join(group)}"
            yield FolderFinding("alike", text, group, (name,))


def _too_few(name: str, photos: Sequence[EmbeddedPhoto], near: float | None, few: int) -> Iterator[FolderFinding]:
    differ = len(np.unique(_groups(photos, near))) if photos else 0
    if differ < few:
        of = f" of {len(photos)}" if differ < len(photos) else ""
        text = f"'{name}' has too few distinct photos: {differ}{of}, teach at least {few}"
        yield FolderFinding("too few", text, (), (name,))


def _groups(photos: Sequence[EmbeddedPhoto], near: float | None) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    looks = np.array([photo.look for photo in photos], np.uint64)
    return near_duplicate_groups(stacked_features(photos), looks, near)


def _confused(collision: advice.ClassCollision) -> FolderFinding:
    return FolderFinding("confused", str(collision), (), (collision.one, collision.other))
