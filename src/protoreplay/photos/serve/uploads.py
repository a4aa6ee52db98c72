"""Photos that come in: read into memory under their number, with caps; the client's names for them are not used."""

import weakref
from collections.abc import Sequence

from fastapi import UploadFile

from protoreplay.core.errors import BusyError, UserError
from protoreplay.data import pictures

MOST_PHOTOS = 200
MOST_BYTES = 20 * 2**20
MOST_REQUEST = 256 * 2**20
WAIT_SECONDS = 10.0
"""For other uploads to leave the memory."""


class UploadTooLargeError(UserError):
    """More photos, bytes or pixels than the server accepts."""


class UploadedPhotos(list[bytes]):
    """Photos in memory; as long as this list is in use, they count among those that the process may hold."""

    def __init__(self, size: int) -> None:
        super().__init__()
        try:
            held = pictures.CONTENTS.take(size, WAIT_SECONDS)
        except TimeoutError:
            raise BusyError("other photos are being looked at: try again in a moment") from None
        weakref.finalize(self, pictures.CONTENTS.give_back, held)


def read_uploads(photos: Sequence[UploadFile]) -> list[bytes]:
    """The files' bytes; an `UploadTooLargeError` names the photo and the cap; a `BusyError`: there is no room."""
    if len(photos) > MOST_PHOTOS:
        raise UploadTooLargeError(f"{len(photos)} photos: {MOST_PHOTOS} at once at most")
    for number, photo in enumerate(photos, 1):
        if (photo.size or 0) > MOST_BYTES:
            raise UploadTooLargeError(f"photo {number}: more than {MOST_BYTES // 2**20} MB")
    contents = UploadedPhotos(sum(photo.size or 0 for photo in photos))
    for number, photo in enumerate(photos, 1):
        contents.append(_checked_photo(number, photo))
    return contents


def _checked_photo(number: int, photo: UploadFile) -> bytes:
    content = photo.file.read(MOST_BYTES)
    try:
        pictures.check_pixels(content)
    except pictures.PictureTooLargeError as error:
        raise UploadTooLargeError(f"photo {number}: {error}") from None
    return content
