"""An explanation as a picture: the photo, what in it speaks for the answer, and the nearest kept photos."""

import io
import textwrap

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from protoreplay.photos.explain import Explanation, KeptPhoto

SIDE, GAP, TILE = 360, 20, 136
FOR, AGAINST = (214, 40, 40), (30, 90, 200)
INK, GREY, PAPER = (30, 30, 30), (105, 105, 105), (255, 255, 255)
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def explanation_as_png(explanation: Explanation) -> bytes:
    """The picture as the bytes of a PNG file."""
    file = io.BytesIO()
    draw_explanation(explanation).save(file, "PNG")
    return file.getvalue()


def draw_explanation(explanation: Explanation) -> Image.Image:
    """The photo as the encoder sees it, the same with its parts coloured, and below them the nearest kept photos."""
    width = 2 * SIDE + 3 * GAP
    title, legend = _title(explanation), _legend(explanation)
    head = GAP + 30 * len(title) + 10
    picture = Image.new("RGB", (width, head + SIDE + 26 * len(legend) + 50 + TILE + 64), PAPER)
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(title):
        draw.text((GAP, GAP + 30 * number), line, INK, _font(22))
    photo = Image.fromarray(explanation.pixels.transpose(1, 2, 0)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    picture.paste(photo, (GAP, head))
    picture.paste(_coloured(photo, explanation.lead), (2 * GAP + SIDE, head))
    y = head + SIDE + 10
    for colour, line in legend:
        draw.rectangle((GAP, y + 3, GAP + 14, y + 17), colour)
        draw.text((GAP + 24, y), line, INK, _font(16))
        y += 26
    draw.text((GAP, y + 8), "Most like it among the kept photos:", INK, _font(16))
    step = (width - 2 * GAP - TILE) // 4
    for number, kept in enumerate(explanation.nearest[:5]):
        _draw_kept(picture, kept, GAP + number * step, y + 38)
    return picture


def _title(explanation: Explanation) -> list[str]:
    answer = explanation.answer
    best = answer.choices[0]
    said = f"{best.label}, {best.probability:.0%}"
    if answer.label is None:
        said = f"I do not know. Closest of the taught classes: {best.label}"
    if len(answer.choices) > 1:
        said += f" (next: {answer.choices[1].label})"
    return textwrap.wrap(said, 62)[:2]


def _legend(explanation: Explanation) -> list[tuple[tuple[int, int, int], str]]:
    labels = [textwrap.shorten(choice.label, 40, placeholder="...") for choice in explanation.answer.choices]
    if len(labels) == 1:
        return [(FOR, f"raises the score of {labels[0]}"), (AGAINST, "lowers it")]
    return [(FOR, f"raises the lead of {labels[0]} over {labels[1]}"), (AGAINST, "lowers it")]


def _coloured(photo: Image.Image, lead: npt.NDArray[np.float64]) -> Image.Image:
    """The photo without its colours, and over it those of the lead: the more of a place's share, the stronger."""
    strongest = float(np.abs(lead).max()) or 1.0
    smooth = Image.fromarray((lead / strongest).astype(np.float32)).resize(photo.size, Image.Resampling.BICUBIC)
    share = np.asarray(smooth).clip(-1, 1)[:, :, None]
    grey = np.asarray(photo.convert("L").convert("RGB")).astype(np.float64)
    colour = np.where(share > 0, np.array(FOR), np.array(AGAINST))
    cover = 0.75 * np.abs(share) ** 0.8
    return Image.fromarray((grey * (1 - cover) + colour * cover).round().clip(0, 255).astype(np.uint8))


def _draw_kept(picture: Image.Image, kept: KeptPhoto, x: int, y: int) -> None:
    draw = ImageDraw.Draw(picture)
    if kept.thumbnail:
        with Image.open(io.BytesIO(kept.thumbnail), formats=["JPEG"]) as small:
            picture.paste(small.convert("RGB").resize((TILE, TILE), Image.Resampling.LANCZOS), (x, y))
    else:
        draw.rectangle((x, y, x + TILE, y + TILE), (244, 244, 244), (200, 200, 200))
        draw.multiline_text((x + 12, y + 44), f"no thumbnail\nphoto {kept.key >> 32:08x}", GREY, _font(14))
    draw.text((x, y + TILE + 6), textwrap.shorten(kept.label, 16, placeholder="..."), INK, _font(16))
    draw.text((x, y + TILE + 27), f"likeness {kept.likeness:.2f}", GREY, _font(14))


def _font(size: int) -> Font:
    """One with many alphabets where the system has it; Pillow's own otherwise."""
    try:
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)
