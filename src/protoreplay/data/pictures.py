"""Any picture that Pillow reads becomes a square of RGB pixels."""

import contextlib
import functools
import itertools
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from protoreplay.core.errors import UserError

T = TypeVar("T")
R = TypeVar("R")


def decode_picture(file: Path | BinaryIO, *sizes: int, fast: bool = False) -> list[npt.NDArray[np.uint8]]:
    """The picture upright, its central square, at each of `sizes`: uint8, 3 x size x size.

    Large JPEGs are decoded at a fraction of their size, but at least twice the largest asked for, or, `fast`, that. A
    `UserError` for what is not a picture, or has so many pixels that it can only be meant to fill the memory.
    """
    least = max(sizes) if fast else 2 * max(sizes)
    try:
        with Image.open(file, formats=_formats()) as image:
            image.draft(None, (least, least))
            ImageOps.exif_transpose(image, in_place=True)
            picture = _to_rgb(image)
        return [central_square(picture, size, fast) for size in sizes]
    except UnidentifiedImageError:
        raise UserError(_named_format(file)) from None
    except Image.DecompressionBombError:
        raise UserError("refused: it has far more pixels than a photo: save a smaller copy of it") from None
    except Exception as error:  # what a broken file makes the many decoders raise is not documented
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"unreadable ({why or type(error).__name__})") from None


def central_square(picture: Image.Image, size: int, fast: bool = False) -> npt.NDArray[np.uint8]:
    """The central square of an RGB picture, uint8, 3 x size x size.

    Lanczos keeps the most detail without aliasing at ratios that are not whole, such as 84 to 32. `fast` shrinks by
    area averages, in a third of the time.
    """
    shrinks = min(picture.size) > size
    chosen = Image.Resampling.BOX if fast and shrinks else Image.Resampling.LANCZOS
    return np.asarray(ImageOps.fit(picture, (size, size), chosen)).transpose(2, 0, 1)


def perceptual_hash(square: npt.NDArray[np.uint8]) -> int:
    """64 bits that pictures have in common that look almost the same: which of two neighbouring fields is brighter.

    Args:
        square: uint8, 3 x size x size.
    """
    fields = Image.fromarray(square.mean(0).astype(np.uint8)).resize((9, 8), Image.Resampling.BOX)
    grey = np.asarray(fields).astype(np.int64)
    return int.from_bytes(np.packbits(grey[:, 1:] > grey[:, :-1]).tobytes())


def map_in_threads(work: Callable[[T], R], items: Iterable[T], done: Callable[[int], None]) -> list[R]:
    """`work` on each of `items`, in order; Pillow decodes without Python's lock. `done` is told how many at a time.

    Items are taken a few at a time, so that they can be as large as the files of an archive.
    """
    threads = os.cpu_count() or 1
    results: list[R] = []
    remaining = iter(items)
    with warnings.catch_warnings(), ThreadPoolExecutor(threads) as pool:
        # Pillow warns of what it can live with, a broken EXIF block for one; what it cannot live with is an error.
        warnings.simplefilter("ignore")
        while batch := list(itertools.islice(remaining, 32 * threads)):
            results += pool.map(work, batch)
            done(len(batch))
    return results


def rgb_pixels(image: Image.Image) -> npt.NDArray[np.uint8]:
    """A picture of Pillow's, upright: uint8, H x W x 3; a `UserError` for one that cannot be read."""
    try:
        return np.asarray(_to_rgb(ImageOps.exif_transpose(image)))
    except Exception as error:
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"unreadable ({why or type(error).__name__})") from None


_KINDS: tuple[tuple[int, tuple[bytes, ...], str], ...] = (
    (4, (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypmsf1", b"ftypheim", b"ftypheis"), "HEIC: install pillow-heif"),
    (4, (b"ftypavif", b"ftypavis"), "AVIF: install a Pillow that reads it, 11.3 or later"),
    (4, (b"ftypcrx ",), "a raw photo: save it as JPEG with the camera's program"),
    (4, (b"ftyp",), "a video: save a picture of it as JPEG"),
    (0, (b"\x1aE\xdf\xa3", b"FLV\x01", b"\x00\x00\x01\xba"), "a video: save a picture of it as JPEG"),
    (8, (b"AVI ",), "a video: save a picture of it as JPEG"),
    (0, (b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!"), "an archive: unpack it"),
    (0, (b"\x00\x00\x00\x0cJXL ", b"\xff\x0a"), "JPEG XL: save it as JPEG or PNG"),
    (0, (b"FUJIFILMCCD-RAW", b"IIRO", b"IIU\x00"), "a raw photo: save it as JPEG with the camera's program"),
    (0, (b"%PDF",), "a PDF: save its page as PNG"),
    (0, (b"%!PS", b"\xc5\xd0\xd3\xc6"), "PostScript: save it as PNG"),
    (0, (b"<svg", b"<?xml"), "a drawing or other XML: save it as PNG"),
)
"""Where a file has which bytes, and what it is then, with what would help."""


def _named_format(file: Path | BinaryIO) -> str:
    """What a file is that is no picture we read, and what would help."""
    try:
        if isinstance(file, Path):
            with file.open("rb") as opened:
                start = opened.read(32)
        else:
            file.seek(0)
            start = file.read(32)
    except OSError:
        start = b""
    for place, marks, kind in _KINDS:
        if start[place:].startswith(marks):
            return f"cannot be read, {kind}"
    return "not a picture of a known format: save it as JPEG or PNG"


@functools.cache
def _formats() -> tuple[str, ...]:
    Image.init()
    with contextlib.suppress(ImportError):  # what iPhones write; without it, such a file is named
        import pillow_heif

        pillow_heif.register_heif_opener()
    # Pillow reads EPS by running Ghostscript on it: it is a program, not a picture.
    return tuple(name for name in Image.ID if name != "EPS")


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("pixels are real numbers of unknown range")
    if image.mode == "I" or image.mode.startswith("I;16"):
        # 16 bits, which `convert` would clip to 8 instead of scaling them.
        image = Image.fromarray((np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        # The colours below transparent pixels are arbitrary: show them as a page would.
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image.load()
    return image if image.mode == "RGB" else image.convert("RGB")
