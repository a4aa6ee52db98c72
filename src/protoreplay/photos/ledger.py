"""What a model holds, class by class, for a person to read."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from protoreplay.core.columns import align_columns
from protoreplay.photos import advice
from protoreplay.photos.model import Event, Model
from protoreplay.prototypes.classifier import shared_scatter, weights


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


def entries(model: Model, most: int = 2) -> list[ClassSummary]:
    """The ledger, in the order of names."""
    if not model.concepts:
        return []
    names = model.head.names
    members = [model.concepts[name] for name in names]
    scatter, freedom = shared_scatter(members)
    weight = weights(scatter, freedom)
    typical = float(scatter @ weight) / max(freedom, 1) or 1.0
    overlap = advice.confusions(model)
    times: dict[str, list[float]] = {name: [] for name in names}
    for event in model.history:
        for name in event["classes"]:
            if name in times and event["action"] in ("learn", "merge"):
                times[name].append(float(event["time"]))
    found = []
    for row, (name, member) in enumerate(zip(names, members, strict=True)):
        own = float(member.scatter @ weight) / (member.count - 1) if member.count > 1 else 0.0
        worst = [int(k) for k in np.argsort(-overlap[row], kind="stable")[:most] if k != row]
        confused = tuple((names[k], float(overlap[row, k])) for k in worst)
        when = times[name] or [0.0]
        found.append(
            ClassSummary(name, member.count, member.bytes, min(when), max(when), math.sqrt(own / typical), confused)
        )
    return found


def lines(model: Model) -> Iterator[str]:
    """As a table, with what is true of the whole model above it."""
    found = entries(model)
    total = sum(sum(entry.kept.values()) for entry in found)
    yield f"encoder {model.encoder}, fingerprint {model.fingerprint[:16]}"
    yield (
        f"{len(found)} classes, {sum(entry.photos for entry in found)} photos seen, {total:,} bytes kept, "
        f"{sum(entry.kept['thumbnails'] for entry in found):,} of them thumbnails ({model.keep} a class at most)"
    )
    if found:
        yield _refusals(model)
    rows = [("class", "photos", "bytes kept", "learned", "spread", "likely confused with")]
    for entry in found:
        confused = ", ".join(f"{name} {share:.0%}" for name, share in entry.confused if share >= 0.01)
        spread = f"{entry.spread:.2f}" if entry.spread else "-"
        learned = _day(entry.first) + ("" if _day(entry.first) == _day(entry.last) else f" to {_day(entry.last)}")
        rows.append((entry.name, str(entry.photos), f"{sum(entry.kept.values()):,}", learned, spread, confused))
    yield from align_columns(rows)


def event_line(event: Event) -> str:
    """What was done when."""
    classes = ", ".join(f"{name} ({count})" for name, count in event["classes"].items())
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(event["time"]))
    return f"{moment}  {event['action']}  {classes or 'a class that is gone'}"


def _refusals(model: Model) -> str:
    if not model.unknown:
        return "never says 'I do not know'"
    if not model.head.calibration.familiar_std:
        return "cannot say 'I do not know' yet: teach three photos, two of one class at least"
    return f"says 'I do not know' to about {model.unknown:.1%} of photos of these classes, and to what is stranger"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds)) if seconds else "?"
