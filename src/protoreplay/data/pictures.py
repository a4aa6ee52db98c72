"""A picture of any of the usual formats becomes a square of RGB pixels."""

import contextlib
import functools
import io
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import TILELENGTH, TILEWIDTH, TiffImageFile

from protoreplay.core.errors import UserError
from protoreplay.core.shared_budget import SharedBudget

T = TypeVar("T")
R = TypeVar("R")

FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF", "PPM")
"""Pillow's names of what photos come in. It reads thirty more, each with a decoder that can be attacked."""
MOST_PIXELS = 50_000_000
"""Of a picture as it is decoded, and of all that this process decodes at a time; decoders take up to 16 bytes each."""
LARGEST_FILE = 256 * 2**20
CONTENTS = SharedBudget(LARGEST_FILE)
"""The bytes of all files of photos that this process has in memory at a time."""
_PIXELS = SharedBudget(MOST_PIXELS)
_TOO_LARGE = "refused: it has far more pixels than a photo: save a smaller copy of it"
_SMALL, _BAND = 4_000_000, 500_000
"""Pixels up to which a picture is converted as a whole, and those that are converted at a time of a larger one."""
_BATCH_BYTES = 64 * 2**20
_MOST_SCANS = 100
"""Of a progressive JPEG, in which each goes over the whole picture; usual are ten."""
_ORIENTATION = 0x0112


class PictureTooLargeError(UserError):
    """More pixels, or bytes, than a photo has."""


def decode_picture(file: Path | BinaryIO, *sizes: int, fast: bool = False) -> list[npt.NDArray[np.uint8]]:
    """The picture upright, its central square, at each of `sizes`: uint8, 3 x size x size.

    Large JPEGs are decoded at a fraction of their size, but at least twice the largest asked for, or, `fast`, that. A
    `UserError` for what is not a picture, or has so many pixels that it can only be meant to fill the memory.
    """
    least = max(sizes) if fast else 2 * max(sizes)
    try:
        with contextlib.ExitStack() as stack:
            if isinstance(file, Path):
                stack.enter_context(CONTENTS.held(checked_file_size(file)))
            image = stack.enter_context(Image.open(file, formats=_formats()))
            stack.enter_context(_PIXELS.held(_drafted_pixels(image, least)))
            picture = _upright_rgb(image, 2 * max(sizes))
            return [central_square(picture, size, fast) for size in sizes]
    except UserError:
        raise
    except UnidentifiedImageError:
        raise UserError(_named_format(file)) from None
    except Image.DecompressionBombError:
        raise PictureTooLargeError(_TOO_LARGE) from None
    except Exception as error:  # what a broken file makes the many decoders raise is not documented
        why = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"unreadable ({why or type(error).__name__})") from None


def check_pixels(content: bytes) -> None:
    """A `PictureTooLargeError` for a picture that has too many pixels, as its head says."""
    try:
        with Image.open(io.BytesIO(content), formats=_formats()) as image:
            _drafted_pixels(image, 512)
    except PictureTooLargeError:
        raise
    except Image.DecompressionBombError:
        raise PictureTooLargeError(_TOO_LARGE) from None
    except Exception:  # no picture, which is found out and said when it is decoded
        return


def checked_file_size(path: Path) -> int:
    """Bytes; a `UserError` for what is no file, or too large for a photo."""
    if not path.is_file():
        raise UserError("not a file" if path.exists() else "does not exist")
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise PictureTooLargeError(f"refused: more than {LARGEST_FILE // 2**20} MB")
    return size


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


def map_in_threads(
    work: Callable[[T], R], items: Iterable[T], done: Callable[[int], None], weight: Callable[[T], int] = lambda item: 0
) -> list[R]:
    """`work` on each of `items`, in order; Pillow decodes without Python's lock. `done` is told how many at a time.

    Items are taken a few at a time, so that they can be as large as the files of an archive; `weight` is their bytes.
    """
    threads = os.cpu_count() or 1
    results: list[R] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(threads) as pool:
        # Pillow warns of what it can live with, a broken EXIF block for one; what it cannot live with is an error.
        warnings.simplefilter("ignore")
        for batch in _batches(items, 32 * threads, weight):
            results += pool.map(work, batch)
            done(len(batch))
    return results


def _batches(items: Iterable[T], most: int, weight: Callable[[T], int]) -> Iterator[list[T]]:
    batch: list[T] = []
    heavy = 0
    for item in items:
        batch.append(item)
        heavy += weight(item)
        if len(batch) == most or heavy >= _BATCH_BYTES:
            yield batch
            batch, heavy = [], 0
    if batch:
        yield batch


def rgb_pixels(image: Image.Image) -> npt.NDArray[np.uint8]:
    """A picture of Pillow's, upright: uint8, H x W x 3; a `UserError` for one that cannot be read."""
    try:
        held = 0
        if isinstance(image, ImageFile.ImageFile):  # a file that is perhaps not decoded yet
            held = _drafted_pixels(image, max(image.size))
        with _PIXELS.held(held):
            return np.asarray(_to_rgb(ImageOps.exif_transpose(image)))
    except UserError:
        raise
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
    (0, (b"\x00\x00\x00\x0cjP  ", b"\xff\x4f\xff\x51"), "JPEG 2000: save it as JPEG or PNG"),
    (0, (b"\x00\x00\x01\x00", b"icns"), "an icon: save it as PNG"),
    (0, (b"8BPS",), "a Photoshop file: save it as JPEG or PNG"),
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
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _drafted_pixels(image: Image.Image, least: int) -> int:
    """The pixels that decoding will keep in memory, after `draft`; a `PictureTooLargeError` for too many.

    A JPEG of one scan is decoded line by line at a fraction of its size, one of several scans is kept as a whole.
    """
    whole, has_scans = image.width * image.height, isinstance(image, JpegImageFile) and _has_many_scans(image)
    image.draft(None, (least, least))
    pixels = whole if has_scans else image.width * image.height
    if isinstance(image, TiffImageFile):  # its tiles may be larger than itself
        pixels = max(pixels, math.prod(int(image.tag_v2.get(side, 1)) for side in (TILEWIDTH, TILELENGTH)))
    if pixels > MOST_PIXELS:
        raise PictureTooLargeError(f"{_TOO_LARGE} ({pixels / 1e6:.0f} million, {MOST_PIXELS // 10**6} at most)")
    return pixels


def _has_many_scans(image: JpegImageFile) -> bool:
    file = image.fp
    assert file is not None
    here = file.tell()  # behind the head of the first scan: its length, and how many colours it has
    head = 6 + 2 * image.layers
    file.seek(here - head)
    start = file.read(3)
    if start == bytes([0, head, image.layers]) and "progressive" not in image.info:
        file.seek(here)
        return False
    file.seek(0)
    scans = file.read().count(b"\xff\xda")
    file.seek(here)
    if scans > _MOST_SCANS:
        raise PictureTooLargeError(f"refused: it has {scans:,} scans: save a copy of it that is not progressive")
    return True


def _upright_rgb(image: Image.Image, least: int) -> Image.Image:
    """Upright and RGB; of a large picture that has to be converted, the central square, reduced to `least` or more."""
    is_rgb = image.mode == "RGB" and not image.has_transparency_data
    if is_rgb or image.width * image.height <= _SMALL:
        ImageOps.exif_transpose(image, in_place=True)
        return _to_rgb(image)
    image.load()
    factor = max(1, min(image.size) // least)
    side = min(image.size) // factor * factor
    left, top = (image.width - side) // 2, (image.height - side) // 2
    rows = factor * max(1, _BAND // (side * factor))
    reduced = Image.new("RGB", (side // factor,) * 2)
    for start in range(0, side, rows):
        band = image.crop((left, top + start, left + side, top + min(start + rows, side)))
        reduced.paste(_to_rgb(band).reduce(factor), (0, start // factor))
    reduced.getexif()[_ORIENTATION] = image.getexif().get(_ORIENTATION, 1)
    ImageOps.exif_transpose(reduced, in_place=True)
    return reduced


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("pixels are real numbers of unknown range")
    if image.mode == "I" or image.mode.startswith("I;16"):
        # 16 bits, which `convert` would clip to 8 instead of scaling them.
        image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        # The colours below transparent pixels are arbitrary: show them as a page would.
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image.load()
    return image if image.mode == "RGB" else image.convert("RGB")
