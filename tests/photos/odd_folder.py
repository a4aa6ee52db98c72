"""A folder with everything that lies around on a disk, for commands that go through it."""

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pillow_heif
from PIL import Image

from tests.photos import fakes


@dataclass(frozen=True)
class OddFolder:
    """Where it is, and what should become of its files, as paths from there.

    Attributes:
        path: a sub-folder per class.
        readable: photos, in whatever format.
        zipped: photos in a zip file among them.
        broken: files that a command must name, each once.
        quiet: files that nobody should hear of.
        links: links to folders that bring in nothing new.
    """

    path: Path
    readable: tuple[str, ...]
    zipped: tuple[str, ...]
    broken: tuple[str, ...]
    quiet: tuple[str, ...]
    links: tuple[str, ...]


def make_odd_folder(path: Path) -> OddFolder:
    """Two classes, `red` and `blue 🐦`, with every oddity among their photos."""
    red, blue = (fakes.photo(colour, 7) for colour in ("red", "blue"))
    readable = {f"red/{i}.png": _saved(fakes.photo("red", 300 + i), "PNG") for i in range(4)}
    readable |= {f"blue 🐦/{i}.jpg": _saved(fakes.photo("blue", 400 + i), "JPEG") for i in range(4)}
    readable |= {
        "red/2019/summer/deep down.png": _saved(fakes.photo("red", 310), "PNG"),
        "red/🍒 cherry.png": _saved(fakes.photo("red", 311), "PNG"),
        "red/phone.heic": _heic(fakes.photo("red", 312)),
        "red/web.avif": _saved(fakes.photo("red", 313), "AVIF"),
        "red/print.jpg": _saved(red.convert("CMYK"), "JPEG"),
        "red/deep.png": _saved(Image.fromarray(np.full((40, 60), 90 * 256, np.uint16)), "PNG"),
        "blue 🐦/moving.gif": _saved(blue, "GIF", save_all=True, append_images=[red]),
    }
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3)).astype(np.uint8))
    broken = {
        "red/cut.png": _saved(noise, "PNG")[:500],
        "red/huge.png": _huge_png(20_000),
        "red/text.jpg": b"this is a text",
        "blue 🐦/clip.mp4": struct.pack(">I", 24) + b"ftypisom" + bytes(64),
        "blue 🐦/cut.zip": _zip(1)[:100],
    }
    quiet = {f"red/{name}": b"x" for name in ("Thumbs.db", "desktop.ini", ".DS_Store", ".hidden.png")}
    quiet |= {"__MACOSX/red/._0.png": b"x", "blue 🐦/empty.jpg": b"", "blue 🐦/__MACOSX/._1.jpg": b"x"}
    for name, content in (readable | broken | quiet).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    (path / "blue 🐦" / "more.zip").write_bytes(_zip(2))
    (path / "empty").mkdir()
    links = {"red/loop": path / "red", "red/2019/up": path, "red/2019/again": path / "red" / "2019", "other": path}
    for name, target in links.items():
        (path / name).symlink_to(target)
    (path / "red" / "nowhere.png").symlink_to("absent.png")
    broken_too = (*broken, "red/nowhere.png")
    zipped = ("blue 🐦/more.zip/0.png", "blue 🐦/more.zip/1.png")
    return OddFolder(path, tuple(readable), zipped, broken_too, tuple(quiet), tuple(links))


def _saved(image: Image.Image, format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def _heic(image: Image.Image) -> bytes:
    file = io.BytesIO()
    pillow_heif.from_pillow(image).save(file, quality=90)
    return file.getvalue()


def _huge_png(side: int) -> bytes:
    """The beginning of a picture that would take a gigabyte."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(3 * side + 1))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _zip(count: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}.png", _saved(fakes.photo("blue", 500 + number), "PNG"))
    return file.getvalue()
