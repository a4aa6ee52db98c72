"""What a model holds, class by class, for a person to read."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from protoreplay.core.columns import align_columns
from protoreplay.photos import advice
from protoreplay.photos.enough import advice_lines, judge_teaching
from protoreplay.photos.photo_model import ModelEvent, PhotoModel
from protoreplay.prototypes.calibration import FEWEST_GROUPS


@dataclass(frozen=True)
class ClassSummary:
    """One class.

    Attributes:
        name: of the class.
        photos: seen.
        kept: bytes, item by item.
        first: when it was learned first, in seconds since 1970; 0 where the history does not say.
        last: when last.
        spread: distance of its photos from their mean, 1 for the mean over all classes; 0 for one photo.
        confused: the classes it is likeliest to be taken for, with the expected share, worst first.
    """

    name: str
    photos: int
    kept: dict[str, int]
    first: float
    last: float
    spread: float
    confused: tuple[tuple[str, float], ...]


def summarise_classes(model: PhotoModel, most: int = 2) -> list[ClassSummary]:
    """One summary a class, in the order of names, with the `most` classes it is likeliest to be taken for."""
    if not model.classes:
        return []
    names = model.head.names
    spreads = _spreads(model)
    overlap = advice.expected_confusions(model)
    times: dict[str, list[float]] = {name: [] for name in names}
    for event in model.history:
        for name in event["classes"]:
            if name in times and event["action"] in ("learn", "merge"):
                times[name].append(float(event["time"]))
    found = []
    for row, name in enumerate(names):
        worst = [int(k) for k in np.argsort(-overlap[row], kind="stable")[:most] if k != row]
        confused = tuple((names[k], float(overlap[row, k])) for k in worst)
        when = times[name] or [0.0]
        found.append(
            ClassSummary(
                name,
                model.classes[name].count,
                model.classes[name].stored_bytes(),
                min(when),
                max(when),
                spreads[row],
                confused,
            )
        )
    return found


def _spreads(model: PhotoModel) -> list[float]:
    """Of each class, the distance of its photos from their mean; 1 for the mean over all photos, 0 for one photo."""
    scatters = [
        float(np.square(member.scatter_rows()).sum()) + len(member.mean) * member.even_scatter
        for member in model.taught.members
    ]
    freedoms = [member.count - 1 for member in model.taught.members]
    typical = sum(scatters) / max(sum(freedoms), 1.0) or 1.0
    return [math.sqrt(own / free / typical) if free else 0.0 for own, free in zip(scatters, freedoms, strict=True)]


def summary_lines(model: PhotoModel) -> Iterator[str]:
    """As a table, with what is true of the whole model above it."""
    found = summarise_classes(model)
    total = sum(sum(summary.kept.values()) for summary in found)
    yield f"encoder {model.encoder}, fingerprint {model.fingerprint[:16]}"
    yield (
        f"{len(found)} classes, {sum(summary.photos for summary in found)} photos seen, {total:,} bytes kept, "
        f"{sum(summary.kept['thumbnails'] for summary in found):,} of them thumbnails (at most {model.keep} per class)"
    )
    if found:
        yield _refusals(model)
    judged = judge_teaching(model) if found else []
    right = {one.name: one.shares() for one in judged}
    rows = [("class", "photos", "bytes kept", "learned", "spread", "right if left out", "likely confused with")]
    for summary in found:
        confused = ", ".join(f"{name} {share:.0%}" for name, share in summary.confused if share >= 0.01)
        spread = f"{summary.spread:.2f}" if summary.spread else "-"
        learned = _day(summary.first) + (
            "" if _day(summary.first) == _day(summary.last) else f" to {_day(summary.last)}"
        )
        size, left_out = f"{sum(summary.kept.values()):,}", right.get(summary.name, "-")
        rows.append((summary.name, str(summary.photos), size, learned, spread, left_out, confused))
    yield from align_columns(rows)
    if judged:
        yield "taught enough?"
        yield from (f"  {line}" for line in advice_lines(judged))


def event_line(event: ModelEvent) -> str:
    """An event of a model's history in one line: when, what, and with which classes."""
    classes = ", ".join(f"{name} ({count})" for name, count in event["classes"].items())
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(event["time"]))
    return f"{moment}  {event['action']}  {classes or 'a class that is gone'}"


def _refusals(model: PhotoModel) -> str:
    """What the promise about "I do not know" is worth."""
    calibration, classes = model.head.calibration, len(model.classes)
    if not model.unknown:
        return "never says 'I do not know'"
    if not calibration.can_refuse:
        return (
            "never says 'I do not know' yet: that takes two photos that differ of at least half of the classes, "
            f"and {FEWEST_GROUPS} such photos in all"
        )
    low, high = calibration.refusal_range(model.unknown)
    said = (
        f"says 'I do not know' to about {model.unknown:.1%} of photos of these classes, judged from "
        f"{calibration.groups} taught photos that differ: {low:.1%} to {high:.1%}"
    )
    few = int((model.taught.effective_counts < 2.5).sum())
    if few:
        said += f"; less sure of the {few} of {classes} classes with one or two photos that differ"
    return said


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds)) if seconds else "?"
