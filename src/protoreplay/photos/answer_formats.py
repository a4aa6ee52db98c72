"""Answers as text, CSV or JSON lines, one at a time."""

import csv
import io
import json
from collections.abc import Callable

from protoreplay.core.words import printable
from protoreplay.photos.answers import Answer

COLUMNS = ("photo", "label", "probability", "nearest", "familiarity", "error")


def answer_as_text(answer: Answer) -> str:
    """`photo: class 93%`, or `photo: unknown, closest is class, 2.4 times as far off as is accepted`."""
    photo = printable(answer.photo)
    if answer.error:
        return f"{photo}: {printable(answer.error)}"
    if answer.label is None:
        far = f", {answer.off:.1f} times as far off as is accepted" if answer.off else ""
        return f"{photo}: unknown" + (f", closest is {answer.choices[0].label}" if answer.choices else "") + far
    return f"{photo}: {answer.label}" + (f" {answer.choices[0].probability:.0%}" if answer.choices else "")


def answer_as_csv(answer: Answer) -> str:
    """The values of `COLUMNS`; `label` is empty for "I don't know", `nearest` is not."""
    best = answer.choices[0] if answer.choices else None
    line = io.StringIO()
    values = (f"{best.probability:.4f}", best.label, f"{answer.familiarity:.5g}") if best else ("", "", "")
    csv.writer(line, lineterminator="").writerow([answer.photo, answer.label or "", *values, answer.error])
    return line.getvalue()


def answer_as_json(answer: Answer) -> str:
    """All that an answer holds; `label` is null for "I don't know"."""
    if answer.error:
        return json.dumps({"photo": answer.photo, "error": answer.error})
    choices = [
        {"label": choice.label, "probability": round(choice.probability, 6), "distance": _short(choice.distance)}
        for choice in answer.choices
    ]
    about: dict[str, object] = {"photo": answer.photo, "label": answer.label, "familiarity": _short(answer.familiarity)}
    about["off"] = _short(answer.off)
    return json.dumps({**about, "choices": choices}, ensure_ascii=False)


def _short(number: float) -> float:
    """To five digits: the rest is noise."""
    return float(f"{number:.5g}")


ANSWER_FORMATS: dict[str, Callable[[Answer], str]] = {
    "text": answer_as_text,
    "csv": answer_as_csv,
    "json": answer_as_json,
}
ANSWER_HEADERS = {"csv": ",".join(COLUMNS)}
