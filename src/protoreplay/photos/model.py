"""A model: named concepts on one encoder, with their history. Immutable, so a reader's copy never changes under it."""

import functools
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.encoders.pretrained import same
from protoreplay.prototypes import classifier as head
from protoreplay.prototypes.sums import Concept, sample_size

LONGEST_NAME = 200
Event = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """What is learned. Every change makes a new model; what did not change is shared, not copied.

    Attributes:
        encoder: its name.
        fingerprint: of the encoder.
        width: number of features D; 0 while nothing is learned.
        unknown: share of photos of known classes that may be answered "I don't know".
        keep: thumbnails kept of a class.
        concepts: by name.
        history: what was done, oldest first: `time` (seconds since 1970), `action`, `classes` (photos by name).
        calibration: of this very content, where it is known already.
    """

    encoder: str
    fingerprint: str
    width: int = 0
    unknown: float = 0.05
    keep: int = 0
    concepts: Mapping[str, Concept] = field(default_factory=dict)
    history: tuple[Event, ...] = ()
    calibration: head.Calibration | None = None

    @functools.cached_property
    def head(self) -> head.Head:
        """What answers."""
        if not self.concepts:
            raise UserError("nothing is learned yet: `protoreplay learn MODEL FOLDER` teaches photos")
        return head.fit(self.concepts, self.calibration)

    def learn(self, lesson: Mapping[str, Concept]) -> "Model":
        """With these photos added to their classes."""
        counts = {name: concept.count for name, concept in sorted(lesson.items())}
        return self._adding(lesson)._noting("learn", counts)

    def merge(self, other: "Model") -> "Model":
        """As if all photos of both had been learned by one; classes of one name become one class.

        A class of the very same photos in both is taken once. Of other photos that are in both nobody knows the
        features any more: they are an error.
        """
        same(self.fingerprint, other.fingerprint, (self.encoder, other.encoder))
        added = {}
        for name, concept in other.concepts.items():
            own = self.concepts.get(name)
            if own is None or not np.isin(concept.seen, own.seen).any():
                added[name] = concept
            elif not np.array_equal(own.seen, concept.seen):
                both = int(np.isin(concept.seen, own.seen).sum())
                raise UserError(
                    f"{both} photos of '{name}' are in both models and would count twice: forget one of the two"
                )
        merged = self._adding(added)
        # Equal moments keep the order of the two models.
        history = tuple(sorted((*self.history, *other.history), key=lambda event: float(event["time"])))
        return replace(merged, history=history)._noting("merge", {name: c.count for name, c in sorted(added.items())})

    def forget(self, name: str) -> "Model":
        """Without the class, and without its name anywhere."""
        self.concept(name)
        rest = {other: concept for other, concept in self.concepts.items() if other != name}
        events = []
        for event in self.history:
            classes = {other: count for other, count in event["classes"].items() if other != name}
            if classes or not event["classes"]:
                events.append({**event, "classes": classes})
        return replace(self, concepts=rest, history=tuple(events), calibration=None)._noting("forget", {})

    def rename(self, old: str, new: str) -> "Model":
        """With another name for a class, also in the history."""
        concept = self.concept(old)
        new = checked_name(new)
        if new in self.concepts:
            raise UserError(
                f"there is a class '{new}' already: `protoreplay merge` is for models, forget or rename it first"
            )
        concepts = {**{name: c for name, c in self.concepts.items() if name != old}, new: concept}
        history = tuple(
            {**event, "classes": {new if name == old else name: n for name, n in event["classes"].items()}}
            for event in self.history
        )
        return replace(self, concepts=concepts, history=history, calibration=None)._noting(
            "rename", {new: concept.count}
        )

    def unite(self, name: str, into: str) -> "Model":
        """With the photos of one class in another, also in the history."""
        one, other = self.concept(name), self.concept(into)
        if name == into:
            raise UserError(f"'{name}' cannot be united with itself: name two classes")
        if both := int(np.isin(one.seen, other.seen).sum()):
            raise UserError(
                f"{both} photos are in '{name}' and in '{into}' and would count twice: forget one of the two"
            )
        rest = replace(self, concepts={known: concept for known, concept in self.concepts.items() if known != name})
        history = []
        for event in self.history:
            classes: dict[str, int] = {}
            for known, count in event["classes"].items():
                target = into if known == name else known
                classes[target] = classes.get(target, 0) + count
            history.append({**event, "classes": classes})
        united = replace(rest._adding({into: one}), history=tuple(history))
        return united._noting("unite", {into: one.count + other.count})

    def concept(self, name: str) -> Concept:
        """Of a class; a `UserError` if there is none of that name."""
        from protoreplay.core.errors import unknown_name

        if name not in self.concepts:
            raise unknown_name("class", name, self.concepts)
        return self.concepts[name]

    def settled(self) -> "Model":
        """The same with its calibration, so that nobody who opens it needs to find it again."""
        return replace(self, calibration=self.head.calibration) if self.concepts else self

    def _adding(self, lesson: Mapping[str, Concept]) -> "Model":
        concepts = dict(self.concepts)
        for name, concept in lesson.items():
            concepts[name] = concepts[name] + concept if name in concepts else concept
        most = sample_size(len(concepts))
        concepts = {name: concept.reduced(most, self.keep) for name, concept in concepts.items()}
        width = next((len(concept.total) for concept in concepts.values()), 0)
        return replace(self, concepts=concepts, width=width, calibration=None)

    def _noting(self, action: str, classes: Mapping[str, int]) -> "Model":
        event = {"time": round(time.time(), 3), "action": action, "classes": dict(classes)}
        return replace(self, history=(*self.history, event))


def checked_name(name: str) -> str:
    """A class name as it is stored; a `UserError` for one that could not be read in a line."""
    name = unicodedata.normalize("NFC", name)
    shown = name if len(name) <= 40 else name[:40] + "..."
    # Cs are halves of characters (bytes of a file name that are no UTF-8), Cc are newlines and their like.
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise UserError(
            f"class name {shown!r}: letters, digits, signs and spaces only, no newlines or control characters"
        )
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME:
        raise UserError(f"class name '{shown}': 1 to {LONGEST_NAME} characters, no spaces at its ends")
    return name


def checked_names(names: Sequence[str]) -> list[str]:
    """All of them; two that look alike once normalised are an error."""
    checked = [checked_name(name) for name in names]
    if twice := next((name for name in checked if checked.count(name) > 1), None):
        raise UserError(f"two folders give the class name '{twice}': rename one")
    return checked
