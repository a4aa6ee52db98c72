"""Photos that come in: read into memory under their number, with caps; the client's names for them are not used."""

import contextlib
from collections.abc import Iterator, Sequence

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


class UploadedPhotos:
    """Photos in memory, which count among those that the process may hold until they are `dropped`."""

    def __init__(self, photos: Sequence[UploadFile]) -> None:
        if len(photos) > MOST_PHOTOS:
            raise UploadTooLargeError(f"{len(photos)} photos: {MOST_PHOTOS} at once at most")
        for number, photo in enumerate(photos, 1):
            if (photo.size or 0) > MOST_BYTES:
                raise UploadTooLargeError(f"photo {number}: more than {MOST_BYTES // 2**20} MB")
        self.contents: list[bytes] = []
        try:
            self._held = pictures.CONTENTS.take(sum(photo.size or 0 for photo in photos), WAIT_SECONDS)
        except TimeoutError:
            raise BusyError("other photos are being looked at: try again in a moment") from None
        try:
            for number, photo in enumerate(photos, 1):
                self.contents.append(_checked_photo(number, photo))
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Make room for others; may be done twice."""
        self.contents = []
        held, self._held = self._held, 0
        pictures.CONTENTS.give_back(held)


@contextlib.contextmanager
def read_uploads(photos: Sequence[UploadFile]) -> Iterator[list[bytes]]:
    """The files' bytes, dropped in the end; an `UploadTooLargeError` names the photo and the cap."""
    uploaded = UploadedPhotos(photos)
    try:
        yield uploaded.contents
    finally:
        uploaded.drop()


def _checked_photo(number: int, photo: UploadFile) -> bytes:
    content = photo.file.read(MOST_BYTES)
    try:
        pictures.check_pixels(content)
    except pictures.PictureTooLargeError as error:
        raise UploadTooLargeError(f"photo {number}: {error}") from None
    return content
