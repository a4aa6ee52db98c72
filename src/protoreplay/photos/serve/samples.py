"""Photos to play with: drawn fruit, never twice the same, and a cup that nobody teaches."""

import functools
import io
import random

from PIL import Image, ImageDraw, ImageFilter

TAUGHT = ("apple", "lemon", "pear")
STRANGE = "cup"
COUNT = 10
"""Of each fruit; the last two are for asking."""
ASKED_FROM = 8
_SIDE = 320
_Box = tuple[float, float, float, float]


@functools.lru_cache(maxsize=64)
def sample_jpeg(kind: str, number: int) -> bytes:
    """One sample; the same number gives the same picture."""
    file = io.BytesIO()
    draw_sample(kind, random.Random(f"{kind} {number}")).save(file, "JPEG", quality=90)
    return file.getvalue()


def draw_sample(kind: str, chance: random.Random) -> Image.Image:
    """One or two fruits, or a cup, on a table in a room."""
    wall = tuple(chance.randint(90, 240) for _ in range(3))
    table = tuple(chance.randint(60, 200) for _ in range(3))
    image = Image.new("RGB", (_SIDE, _SIDE), wall)
    draw = ImageDraw.Draw(image)
    edge = _SIDE * chance.uniform(0.35, 0.7)
    draw.rectangle((0, edge, _SIDE, _SIDE), fill=table)
    for _ in range(chance.randint(0, 3)):  # what else is in the room
        left, width = chance.uniform(-20, _SIDE), chance.uniform(20, 110)
        colour = tuple(chance.randint(60, 240) for _ in range(3))
        draw.rectangle((left, edge - chance.uniform(30, 160), left + width, edge), fill=colour)
    shade = chance.randint(-35, 35)
    places = [(chance.uniform(110, 210), chance.uniform(150, 215), chance.uniform(48, 95))]
    if chance.random() < 0.35:
        places.insert(0, (chance.choice((60, 260)), chance.uniform(140, 200), chance.uniform(35, 55)))
    for x, y, r in places:
        draw.ellipse(_oval(x + 8, y + r * 0.95, r, r * 0.2), fill=tuple(part * 2 // 3 for part in table))
        _DRAWN[kind](draw, x, y, r, shade)
        if kind != STRANGE:
            draw.ellipse(_oval(x - r * 0.35, y - r * 0.35, r * 0.16, r * 0.12), fill=(255, 250, 235))
    turned = image.rotate(chance.uniform(-14, 14), Image.Resampling.BICUBIC, fillcolor=wall)
    return turned.crop((24, 24, _SIDE - 24, _SIDE - 24)).filter(ImageFilter.GaussianBlur(chance.uniform(0.6, 1.6)))


def _apple(draw: ImageDraw.ImageDraw, x: float, y: float, r: float, shade: int) -> None:
    draw.ellipse(_oval(x - r * 0.3, y, r * 0.75, r * 0.94), fill=(195 + shade, 35, 40))
    draw.ellipse(_oval(x + r * 0.3, y, r * 0.75, r * 0.94), fill=(188 + shade, 32, 40))
    draw.line((x, y - r * 0.8, x + r * 0.15, y - r * 1.25), fill=(80, 50, 20), width=6)
    draw.ellipse(_oval(x + r * 0.4, y - r * 1.1, r * 0.28, r * 0.12), fill=(60, 140 + shade, 50))


def _lemon(draw: ImageDraw.ImageDraw, x: float, y: float, r: float, shade: int) -> None:
    draw.ellipse(_oval(x, y, r * 1.15, r * 0.78), fill=(238, 210 + shade // 2, 50))
    for side in (-1, 1):
        draw.ellipse(_oval(x + side * r * 1.12, y, r * 0.18, r * 0.14), fill=(238, 210 + shade // 2, 50))


def _pear(draw: ImageDraw.ImageDraw, x: float, y: float, r: float, shade: int) -> None:
    draw.ellipse(_oval(x, y + r * 0.15, r * 0.85, r * 0.8), fill=(150 + shade, 180, 60))
    draw.ellipse(_oval(x, y - r * 0.7, r * 0.45, r * 0.6), fill=(150 + shade, 180, 60))
    draw.line((x, y - r * 1.2, x + 6, y - r * 1.5), fill=(80, 50, 20), width=6)


def _cup(draw: ImageDraw.ImageDraw, x: float, y: float, r: float, shade: int) -> None:
    draw.rectangle(_oval(x, y, r * 0.8, r * 0.9), fill=(60, 90 + shade, 150))
    draw.arc(_oval(x + r * 0.8, y, r * 0.5, r * 0.5), -90, 90, fill=(60, 90 + shade, 150), width=14)
    draw.ellipse(_oval(x, y - r * 0.9, r * 0.8, r * 0.2), fill=(50, 30, 20))


_DRAWN = {"apple": _apple, "lemon": _lemon, "pear": _pear, STRANGE: _cup}


def _oval(x: float, y: float, width: float, height: float) -> _Box:
    return (x - width, y - height, x + width, y + height)
