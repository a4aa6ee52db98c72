"""Teaching as two steps: photos are prepared (the slow part, which changes nothing), and then learned."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.photos import advice
from protoreplay.photos.answers import stacked_features
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_inputs import Photo, Photos, each_photo
from protoreplay.photos.photo_model import PhotoModel, alike_class_names, checked_class_names
from protoreplay.prototypes.sums import Floats

TeachingWarning = advice.ClassCollision | advice.MisplacedPhoto | advice.NearDuplicates | str


@dataclass(frozen=True)
class PreparedPhotos:
    """Photos with their features, ready to be learned.

    Attributes:
        by_class: those that could be read.
        unreadable: those that could not.
    """

    by_class: Mapping[str, Sequence[EmbeddedPhoto]]
    unreadable: Sequence[EmbeddedPhoto] = ()


@dataclass(frozen=True)
class TeachingReport:
    """What learning photos did.

    Attributes:
        learned: new photos by class.
        known: photos that had been learned before, by class; they are not counted twice.
        warnings: photos that are almost the same, collisions of classes, photos in the wrong place.
        errors: photos that could not be read.
    """

    learned: Mapping[str, int]
    known: Mapping[str, int]
    warnings: Sequence[TeachingWarning] = ()
    errors: Sequence[EmbeddedPhoto] = ()


def prepare_photos(
    photos: Mapping[str, Photos],
    embed: Callable[[Iterable[Photo]], Iterable[EmbeddedPhoto]],
    tell: Callable[[int], None] = lambda done: None,
) -> PreparedPhotos:
    """Photos by class, embedded in one stream; `tell` hears how many are done."""
    if not isinstance(photos, Mapping):
        raise UserError(f"photos are taught by class, such as {{'crow': [...]}}: not {type(photos).__name__}")
    names = checked_class_names(list(photos))
    owners: list[str] = []

    def all_photos() -> Iterator[Photo]:
        for name, some in zip(names, photos.values(), strict=True):
            for photo in each_photo(some):
                owners.append(name)
                yield photo

    found: dict[str, list[EmbeddedPhoto]] = {name: [] for name in names}
    unreadable: list[EmbeddedPhoto] = []
    for number, one in enumerate(embed(all_photos())):
        (unreadable if one.error else found[owners[number]]).append(one)
        tell(1)
    for name, some in found.items():
        if not some:
            raise UserError(f"class '{name}' has no readable photo: put some in or leave it out")
    return PreparedPhotos(found, unreadable)


def learn_prepared(model: PhotoModel, prepared: PreparedPhotos) -> tuple[PhotoModel, TeachingReport]:
    """The model that has learned the photos (the same one if it knew them all), and what they did to it."""
    fresh: dict[str, list[EmbeddedPhoto]] = {}
    known: dict[str, int] = {}
    warnings: list[TeachingWarning] = [
        f"'{name}' and '{other}' differ in case, spaces or accents alone: are they one class?"
        for name, other in alike_class_names(prepared.by_class, model.classes)
    ]
    for name, photos in prepared.by_class.items():
        seen = set(model.classes[name].seen.tolist()) if name in model.classes else set()
        unique = {photo.key: photo for photo in photos}
        fresh[name] = [photo for key, photo in unique.items() if key not in seen]
        known[name] = len(photos) - len(fresh[name])
        warnings += _taught_elsewhere(model, name, fresh[name])
    learned = {name: len(photos) for name, photos in fresh.items()}
    features = {name: stacked_features(photos) for name, photos in fresh.items() if photos}
    if features:
        model = model.learn({name: _photo_class(fresh[name], rows, model.keep) for name, rows in features.items()})
        warnings += advice.find_near_duplicates(model, list(features))
        warnings += advice.find_collisions(model, list(features))
        warnings += advice.find_misplaced(
            model, {name: {photo.key: photo.name for photo in fresh[name]} for name in features}
        )
    return model, TeachingReport(learned, known, warnings, prepared.unreadable)


def _taught_elsewhere(model: PhotoModel, name: str, photos: Sequence[EmbeddedPhoto]) -> list[str]:
    keys = np.array([photo.key for photo in photos], np.uint64)
    warnings = []
    for other, own in model.classes.items():
        if other != name:
            again = np.isin(keys, own.seen)
            both = (photo.name for photo, known in zip(photos, again, strict=True) if known)
            warnings += [f"{photo} was taught as '{other}' before" for photo in both]
    return warnings


def _photo_class(photos: Sequence[EmbeddedPhoto], features: Floats, keep: int) -> PhotoClass:
    keys, looks = [photo.key for photo in photos], [photo.look for photo in photos]
    return PhotoClass.of(features, keys, looks, _thumbnails(photos, keep))


def _thumbnails(photos: Sequence[EmbeddedPhoto], keep: int) -> dict[int, bytes]:
    lowest = sorted(photos, key=lambda photo: photo.key)[:keep]
    return {photo.key: photo.thumbnail for photo in lowest if photo.thumbnail}
