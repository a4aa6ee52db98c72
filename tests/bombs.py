"""Pictures of a few kilobytes that claim to be enormous, in every format and form whose decoder takes memory first."""

import io
import struct
import zlib

from PIL import Image, ImageFile

SIDE = 7000
"""Pixels of a side within the limit: 49 million in all."""


def webp(width: int, height: int) -> bytes:
    """The head of a lossless WebP, and no pixel."""
    bits = (width - 1) | (height - 1) << 14
    chunk = b"\x2f" + struct.pack("<I", bits) + bytes(8)
    body = b"WEBPVP8L" + struct.pack("<I", len(chunk)) + chunk + bytes(len(chunk) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def png(width: int, height: int, bits: int, colour: int) -> bytes:
    """Black, of so many bits in a channel and Pillow's number for the channels, packed tightly."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = bytes(1 + width * channels * bits // 8)
    packer = zlib.compressobj(9)
    pixels = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    palette = chunk(b"PLTE", bytes(range(6))) + chunk(b"tRNS", b"\x80") if colour == 3 else b""
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def saved(mode: str, format: str, side: int = SIDE, **options: object) -> bytes:
    """A plain picture as Pillow writes it."""
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, format, **options)
    return file.getvalue()


def tiled_tiff(tile: int) -> bytes:
    """A picture of 16 x 16 pixels in one tile of a size of its own."""
    pixels = zlib.compress(bytes(1000))
    entries = [
        (256, 3, 16), (257, 3, 16), (258, 3, 8), (259, 3, 8), (262, 3, 1), (277, 3, 1),
        (322, 4, tile), (323, 4, tile), (324, 4, 8), (325, 4, len(pixels)),
    ]  # fmt: skip
    head = b"II*\0" + struct.pack("<I", 8 + len(pixels) + len(pixels) % 2)
    listed = b"".join(struct.pack("<HHI", tag, kind, 1) + struct.pack("<I", value) for tag, kind, value in entries)
    start = head + pixels + bytes(len(pixels) % 2)
    return start + struct.pack("<H", len(entries)) + listed + bytes(4)


def icon(inner: bytes) -> bytes:
    """An ICO around a PNG."""
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(inner), 22) + inner


def icns(inner: bytes) -> bytes:
    """An ICNS around a PNG."""
    return b"icns" + struct.pack(">I", 16 + len(inner)) + b"ic10" + struct.pack(">I", 8 + len(inner)) + inner


def all_bombs() -> dict[str, bytes]:
    """Each by a name that says what it is; those that claim to be within the limit, and those beyond it."""
    import pillow_heif

    pillow_heif.register_heif_opener()
    ImageFile.MAXBLOCK = 2**26
    large = png(20_000, 20_000, 8, 0)
    found = {
        "webp-beyond": webp(16_383, 16_383),
        "webp": webp(SIDE, SIDE),
        "webp-alpha": saved("RGBA", "WEBP", lossless=True),
        "png16": png(SIDE, SIDE, 16, 0),
        "png16-colour": png(SIDE, SIDE, 16, 2),
        "png-alpha": png(SIDE, SIDE, 8, 6),
        "png-palette": png(SIDE, SIDE, 8, 3),
        "png-beyond": large,
        "tiff32": saved("I", "TIFF", compression="tiff_adobe_deflate"),
        "tiff-real": saved("F", "TIFF", compression="tiff_adobe_deflate"),
        "tiff-cmyk": saved("CMYK", "TIFF", compression="tiff_adobe_deflate"),
        "tiff-tile": tiled_tiff(32_768),
        "gif": saved("P", "GIF"),
        "jpeg-progressive": saved("L", "JPEG", progressive=True, quality=1),
        "jpeg-progressive-colour": saved("RGB", "JPEG", progressive=True, quality=1, subsampling=0),
        "jpeg-progressive-beyond": saved("L", "JPEG", 12_000, progressive=True, quality=1),
        "avif": saved("RGB", "AVIF", speed=10),
        "avif-alpha": saved("RGBA", "AVIF", speed=10),
        "heic": saved("RGB", "HEIF"),
        "ico": icon(large),
        "icns": icns(large),
    }
    return {name: content for name, content in found.items() if len(content) < 2**20}
