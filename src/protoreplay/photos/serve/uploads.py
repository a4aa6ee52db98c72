"""Photos that come in: read into memory under their number, with caps; the client's names for them are not used."""

import io
from collections.abc import Sequence

from fastapi import UploadFile
from PIL import Image

from protoreplay.core.errors import UserError

MOST_PHOTOS = 200
MOST_BYTES = 20 * 2**20
MOST_PIXELS = 64_000_000
MOST_REQUEST = 256 * 2**20


class UploadTooLargeError(UserError):
    """More photos, bytes or pixels than the server accepts."""


def read_uploads(photos: Sequence[UploadFile]) -> list[bytes]:
    """The files' bytes; a `UploadTooLargeError` that names the photo and the cap."""
    if len(photos) > MOST_PHOTOS:
        raise UploadTooLargeError(f"{len(photos)} photos: {MOST_PHOTOS} at once at most")
    contents = []
    for number, photo in enumerate(photos, 1):
        content = photo.file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UploadTooLargeError(f"photo {number}: more than {MOST_BYTES // 2**20} MB")
        pixels = _pixels(content)
        if pixels > MOST_PIXELS:
            raise UploadTooLargeError(
                f"photo {number}: {pixels / 1e6:.0f} million pixels, {MOST_PIXELS // 10**6} at most"
            )
        contents.append(content)
    return contents


def _pixels(content: bytes) -> int:
    """As the file's head says; 0 for what is no picture, which is found out and said when it is decoded."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.width * image.height
    except Image.DecompressionBombError:
        return 2 * (Image.MAX_IMAGE_PIXELS or MOST_PIXELS)
    except Exception:  # what a broken file makes the many decoders raise is not documented
        return 0
