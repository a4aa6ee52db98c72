"""A photo model: named classes on one encoder, with their history. Immutable, so nothing changes under a reader."""

import functools
import numbers
import time
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.core.words import counted
from protoreplay.encoders.pretrained import FrozenEncoder, check_same_encoder
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.prototypes.calibration import HeadCalibration, calibrate_left_out, left_out_again
from protoreplay.prototypes.covariance import SharedCovariance
from protoreplay.prototypes.near_duplicates import NEAR
from protoreplay.prototypes.prototype_head import PrototypeHead, head_of
from protoreplay.prototypes.taught import LeftOutScores, TaughtClasses

LONGEST_NAME = 200
ModelEvent = dict[str, Any]


@dataclass(frozen=True)
class PhotoModel:
    """What is learned. Every change makes a new model; what did not change is shared, not copied.

    Attributes:
        encoder: its name.
        fingerprint: of the encoder.
        width: number of features D; 0 while nothing is learned.
        unknown: share of photos of known classes that may be answered "I don't know"; 0 never says so.
        keep: thumbnails kept of a class.
        classes: by name.
        history: what was done, oldest first: `time` (seconds since 1970), `action`, `classes` (photos by name).
        calibration: of this very content, where it is known already.
        known_covariance: that the classes share, where it is known already.
    """

    encoder: str
    fingerprint: str
    width: int = 0
    unknown: float = 0.05
    keep: int = 0
    classes: Mapping[str, PhotoClass] = field(default_factory=dict)
    history: tuple[ModelEvent, ...] = ()
    calibration: HeadCalibration | None = None
    known_covariance: SharedCovariance | None = None

    @functools.cached_property
    def head(self) -> PrototypeHead:
        """What answers; a `UserError` while nothing is learned."""
        return head_of(tuple(sorted(self.classes)), self.taught, self.calibration or self._calibrated[0])

    @functools.cached_property
    def left_out(self) -> LeftOutScores | None:
        """How photos compare with all classes once they are left out of everything; None where none can be."""
        return left_out_again(self.taught, self.calibration.ridge) if self.calibration else self._calibrated[1]

    @functools.cached_property
    def _calibrated(self) -> tuple[HeadCalibration, LeftOutScores | None]:
        return calibrate_left_out(self.taught)

    @functools.cached_property
    def taught(self) -> TaughtClasses:
        """The classes in the order of their names; a `UserError` while nothing is learned."""
        if not self.classes:
            raise UserError("nothing is learned yet: `protoreplay learn MODEL FOLDER` teaches photos")
        members = [self.classes[name].sums for name in sorted(self.classes)]
        # How near two photos are that are almost the same was measured with the built-in encoders only; of others
        # their perceptual hashes tell.
        near = NEAR if self.encoder.startswith("lite") else None
        return TaughtClasses.of(members, near, self.known_covariance)

    def configured(self, unknown: float | None = None, keep: int | None = None) -> "PhotoModel":
        """With other settings, where they are given."""
        if unknown is not None and not 0 <= unknown <= 0.5:
            raise UserError(f"unknown={unknown}: a share of photos from 0 (never refuse) to 0.5")
        if keep is not None and not 0 <= keep <= 1000:
            raise UserError(f"keep={keep}: 0 to 1000 thumbnails a class")
        return replace(
            self, unknown=self.unknown if unknown is None else unknown, keep=self.keep if keep is None else keep
        )

    def on_encoder(self, encoder: FrozenEncoder) -> "PhotoModel":
        """The same, for an encoder of the same fingerprint that may have moved; a `UserError` for any other."""
        check_same_encoder(self.fingerprint, encoder.fingerprint, (self.encoder, encoder.name))
        return self if self.encoder == encoder.name else replace(self, encoder=encoder.name)

    def learn(self, added: Mapping[str, PhotoClass]) -> "PhotoModel":
        """With these photos added to their classes."""
        return self._adding(added)._noting("learn", _counts(added))

    def merge(self, other: "PhotoModel") -> "PhotoModel":
        """As if all photos of both had been learned by one; classes of one name become one class.

        A class of the very same photos in both is taken once. Of other photos that are in both nobody knows the
        features any more: they are an error.
        """
        check_same_encoder(self.fingerprint, other.fingerprint, (self.encoder, other.encoder))
        added = {}
        for name, theirs in other.classes.items():
            own = self.classes.get(name)
            if own is None or not np.isin(theirs.seen, own.seen).any():
                added[name] = theirs
            elif not np.array_equal(own.seen, theirs.seen):
                both = int(np.isin(theirs.seen, own.seen).sum())
                raise UserError(
                    f"both models were taught {counted(both, 'photo')} of '{name}', which may count only once: "
                    "forget the class in one of them"
                )
        # Equal moments keep the order of the two models.
        history = tuple(sorted((*self.history, *other.history), key=lambda event: float(event["time"])))
        return replace(self._adding(added), history=history)._noting("merge", _counts(added))

    def forget(self, name: str) -> "PhotoModel":
        """Without the class, and without its name anywhere."""
        rest = self._without(name)
        events = []
        for event in self.history:
            classes = {other: count for other, count in event["classes"].items() if other != name}
            if classes or not event["classes"]:
                events.append({**event, "classes": classes})
        return replace(rest, history=tuple(events))._noting("forget", {})

    def without_photo(self, name: str, key: int) -> "PhotoModel":
        """Without one photo of a class, of those that are kept singly; without the class if it was the only one."""
        own = self.find_class(name)
        if own.count == 1:
            return self.forget(name)
        rest = self._without(name)
        return replace(rest, classes={**rest.classes, name: own.without(key)})._noting("forget photo", {name: 1})

    def rename(self, old: str, new: str | int) -> "PhotoModel":
        """With another name for a class, also in the history."""
        own, rest, new = self.find_class(old), self._without(old), checked_class_name(new)
        if new in self.classes:
            raise UserError(
                f"there is a class '{new}' already: `protoreplay merge` is for models, forget or rename it first"
            )
        renamed = replace(rest, classes={**rest.classes, new: own}, history=self._relabelled_history(old, new))
        return renamed._noting("rename", {new: own.count})

    def unite(self, name: str, into: str) -> "PhotoModel":
        """With the photos of one class in another, also in the history."""
        one, other = self.find_class(name), self.find_class(into)
        if name == into:
            raise UserError(f"'{name}' cannot be united with itself: name two classes")
        if both := int(np.isin(one.seen, other.seen).sum()):
            raise UserError(
                f"'{name}' and '{into}' were both taught {counted(both, 'photo')}, which may count only once: "
                "forget one of the classes"
            )
        united = replace(self._without(name)._adding({into: one}), history=self._relabelled_history(name, into))
        return united._noting("unite", {into: one.count + other.count})

    def find_class(self, name: str) -> PhotoClass:
        """The class of that name; a `UserError` if there is none."""
        if name not in self.classes:
            raise unknown_name("class", name, self.classes)
        return self.classes[name]

    def calibrated(self) -> "PhotoModel":
        """The same with its calibration, so that nobody who opens it needs to find it again."""
        return replace(self, calibration=self.head.calibration, **self._found()) if self.classes else self

    def _found(self) -> dict[str, Any]:
        """What was found of this content, for a copy of it."""
        covariance = self.taught.covariance
        return {"known_covariance": covariance if covariance.dense.size else None}

    def _adding(self, added: Mapping[str, PhotoClass]) -> "PhotoModel":
        classes = dict(self.classes)
        for name, more in added.items():
            classes[name] = classes[name] + more if name in classes else more
        classes = {name: own.reduced(self.keep) for name, own in classes.items()}
        width = next((own.sums.rows.shape[1] for own in classes.values()), 0)
        return replace(
            self,
            classes=classes,
            width=width,
            calibration=None,
            known_covariance=self._covariance_with(added, classes),
        )

    def _covariance_with(
        self, added: Mapping[str, PhotoClass], classes: Mapping[str, PhotoClass]
    ) -> SharedCovariance | None:
        """The covariance of `classes`, which differ in `added` alone: only with many classes it pays to change it."""
        known = vars(self)["taught"].covariance if "taught" in vars(self) else self.known_covariance
        if known is None or not known.dense.size:
            return None
        for name in added:
            if name in self.classes:
                known = known.plus_class(self.classes[name].sums, -1)
            known = known.plus_class(classes[name].sums)
        return known

    def _without(self, name: str) -> "PhotoModel":
        self.find_class(name)
        rest = {other: own for other, own in self.classes.items() if other != name}
        # The covariance is added up anew: what is taken off a sum would leave a trace of itself in its last digits.
        return replace(self, classes=rest, calibration=None, known_covariance=None)

    def _relabelled_history(self, old: str, new: str) -> tuple[ModelEvent, ...]:
        """With what was done to the class `old` done to `new`."""
        events = []
        for event in self.history:
            classes: dict[str, int] = {}
            for name, count in event["classes"].items():
                label = new if name == old else name
                classes[label] = classes.get(label, 0) + count
            events.append({**event, "classes": classes})
        return tuple(events)

    def _noting(self, action: str, classes: Mapping[str, int]) -> "PhotoModel":
        event = {"time": round(time.time(), 3), "action": action, "classes": dict(classes)}
        return replace(self, history=(*self.history, event))


def _counts(classes: Mapping[str, PhotoClass]) -> dict[str, int]:
    return {name: own.count for name, own in sorted(classes.items())}


def checked_class_name(name: object) -> str:
    """A class name as it is stored, a number as text; a `UserError` for one that could not be read in a line."""
    if isinstance(name, bool) or not isinstance(name, str | numbers.Number | np.number):
        raise UserError(f"class name {name!r}: give a text or a number")
    name = str(name)[: 100 * LONGEST_NAME]  # which is refused, without a look at the megabytes that may follow
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


def checked_class_names(names: Sequence[object]) -> list[str]:
    """All of them; two that look alike once normalised are an error."""
    checked = [checked_class_name(name) for name in names]
    if twice := next((name for name in checked if checked.count(name) > 1), None):
        raise UserError(f"two folders give the class name '{twice}': rename one")
    return checked


def class_name_key(name: str) -> str:
    """What names have in common that differ in case, spaces or accents alone."""
    letters = unicodedata.normalize("NFKD", name).casefold()
    # Only accents of European letters: signs of other scripts make other words.
    return "".join(letter for letter in letters if not letter.isspace() and not "\u0300" <= letter <= "\u036f")


def alike_class_names(names: Iterable[str], known: Collection[str]) -> list[tuple[str, str]]:
    """Names that are not among the `known`, each with one, known or before it, that it is all but the same as."""
    owners: dict[str, str] = {class_name_key(name): name for name in known}
    found = []
    for name in names:
        other = owners.setdefault(class_name_key(name), name)
        if other != name and name not in known:
            found.append((name, other))
    return found
