"""Photos that come in: read into memory under their number, with caps; the client's names for them are not used."""

import io
from collections.abc import Sequence

from fastapi import UploadFile
from PIL import Image

from protoreplay.core.errors import UserError
from protoreplay.photos.embedding import EmbeddedPhoto

MOST_PHOTOS = 200
MOST_BYTES = 20 * 2**20
MOST_PIXELS = 64_000_000
MOST_REQUEST = 256 * 2**20


class UploadTooLargeError(UserError):
    """More photos, bytes or pixels than the server accepts."""


ReadPhoto = bytes | EmbeddedPhoto
"""A photo's content, or, of one that was refused, why."""


def read_uploads(photos: Sequence[UploadFile]) -> list[ReadPhoto]:
    """The files' bytes; one that is refused spoils only itself.

    A `UploadTooLargeError` if there are too many, or if all of them are too large.
    """
    if len(photos) > MOST_PHOTOS:
        raise UploadTooLargeError(f"{len(photos)} photos: {MOST_PHOTOS} at once at most")
    found: list[ReadPhoto] = []
    for number, photo in enumerate(photos, 1):
        content = photo.file.read(MOST_BYTES + 1)
        problem = _problem(content)
        found.append(EmbeddedPhoto(f"photo {number}", error=problem) if problem else content)
    refused = [photo for photo in found if isinstance(photo, EmbeddedPhoto)]
    if refused and len(refused) == len(found):
        raise UploadTooLargeError("; ".join(f"{photo.name}: {photo.error}" for photo in refused))
    return found


def _problem(content: bytes) -> str:
    if len(content) > MOST_BYTES:
        return f"more than {MOST_BYTES // 2**20} MB"
    pixels = _pixels(content)
    if pixels > MOST_PIXELS:
        return f"{pixels / 1e6:.0f} million pixels, {MOST_PIXELS // 10**6} at most"
    return ""


def _pixels(content: bytes) -> int:
    """As the file's head says; 0 for what is no picture, which is found out and said when it is decoded."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.width * image.height
    except Image.DecompressionBombError:
        return 2 * (Image.MAX_IMAGE_PIXELS or MOST_PIXELS)
    except Exception:  # what a broken file makes the many decoders raise is not documented
        return 0
