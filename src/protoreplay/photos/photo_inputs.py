"""What people pass as photos, one or many, made into a stream of photos."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from protoreplay.core.errors import UserError
from protoreplay.photos.photo_paths import walk_photos
from protoreplay.photos.zipped_photos import ZippedPhoto

Photo = str | Path | ZippedPhoto | bytes | npt.NDArray[np.uint8] | Image.Image
"""A file, one in a zip file, the bytes of one, pixels (H x W, or H x W x 1, 3 or 4), or a picture of Pillow's."""
Photos = Photo | Iterable[Photo]
"""One photo, a folder of photos, or many of them; an array N x H x W x 3 is many."""


def each_photo(photos: Photos) -> Iterator[Photo]:
    """One by one; of folders, all photos in them and below. A `UserError` for what cannot be a photo."""
    single = _single(photos)
    if single is not None:
        yield from single
        return
    if isinstance(photos, Mapping) or not isinstance(photos, Iterable):
        raise _no_photo(photos)
    for photo in photos:
        one = _single(photo)
        if one is None:
            raise _no_photo(photo)
        yield from one


def _single(photo: Any) -> Iterable[Photo] | None:
    """What one thing stands for: itself, the photos of a folder or of an array of many; None for anything else."""
    if isinstance(photo, str | Path):
        return walk_photos([Path(photo)])
    if isinstance(photo, bytearray | memoryview):
        return [bytes(photo)]
    if isinstance(photo, ZippedPhoto | bytes | Image.Image):
        return [photo]
    if not isinstance(photo, np.ndarray) and hasattr(photo, "__array__"):
        photo = np.asarray(photo)
    if isinstance(photo, np.ndarray) and photo.dtype != object:
        return list(photo) if photo.ndim == 4 else [photo]
    return None


def _no_photo(thing: object) -> UserError:
    return UserError(
        f"{type(thing).__name__} is no photo: give a path, the bytes of a file, a picture of Pillow's, an array of "
        "pixels, or a list of these"
    )
