"""Photos that come in: read into memory under their number, with caps; the client's names for them are not used."""

import weakref
from collections.abc import Sequence

from fastapi import UploadFile

from protoreplay.core.errors import BusyError, UserError
from protoreplay.data import pictures
from protoreplay.photos.embedding import EmbeddedPhoto

MOST_PHOTOS = 200
MOST_BYTES = 20 * 2**20
MOST_REQUEST = 256 * 2**20
WAIT_SECONDS = 10.0
"""For other uploads to leave the memory."""


class UploadTooLargeError(UserError):
    """More photos, bytes or pixels than the server accepts."""


ReadPhoto = bytes | EmbeddedPhoto
"""A photo's content, or, of one that was refused, why."""


class UploadedPhotos(list[ReadPhoto]):
    """Photos in memory; as long as this list is in use, they count among those that the process may hold."""

    def __init__(self, size: int) -> None:
        super().__init__()
        try:
            held = pictures.CONTENTS.take(size, WAIT_SECONDS)
        except TimeoutError:
            raise BusyError("other photos are being looked at: try again in a moment") from None
        weakref.finalize(self, pictures.CONTENTS.give_back, held)


def read_uploads(photos: Sequence[UploadFile]) -> list[ReadPhoto]:
    """The files' bytes; one that is refused spoils only itself.

    An `UploadTooLargeError` if there are too many, or if all of them are too large; a `BusyError`: there is no room.
    """
    if len(photos) > MOST_PHOTOS:
        raise UploadTooLargeError(f"{len(photos)} photos: {MOST_PHOTOS} at once at most")
    found = UploadedPhotos(sum(photo.size or 0 for photo in photos if not _is_too_large(photo)))
    for number, photo in enumerate(photos, 1):
        found.append(_checked_photo(number, photo))
    refused = [photo for photo in found if isinstance(photo, EmbeddedPhoto)]
    if refused and len(refused) == len(found):
        raise UploadTooLargeError("; ".join(f"{photo.name}: {photo.error}" for photo in refused))
    return found


def _is_too_large(photo: UploadFile) -> bool:
    return (photo.size or 0) > MOST_BYTES


def _checked_photo(number: int, photo: UploadFile) -> ReadPhoto:
    name = f"photo {number}"
    if _is_too_large(photo):
        return EmbeddedPhoto(name, error=f"more than {MOST_BYTES // 2**20} MB")
    content = photo.file.read(MOST_BYTES)
    try:
        pictures.check_pixels(content)
    except pictures.PictureTooLargeError as error:
        return EmbeddedPhoto(name, error=str(error))
    return content
