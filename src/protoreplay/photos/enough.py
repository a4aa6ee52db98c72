"""Have I taught enough? What the taught photos say of each other when each is left out, with all of them and with half.

Each photo (with all that are almost the same) is left out of everything and asked about; of a class of more than 30
photos only those that are kept singly can be asked. Then the same with every second photo of each class: what doubling
the photos has brought says what more of them may bring.
"""

from collections import Counter
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np

from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel

GOOD = 0.9
"""Share of right answers from which a class is taught well enough."""
FEW = 5
"""Photos below which more are advised whatever the answers are."""
WORTH = 0.05
"""What the second half of the photos must have brought, so that more are expected to bring something."""
OFTEN = 0.25
"""Share of a class's photos taken for one other class from which that class is named."""

TeachingVerdict = Literal["alone", "few", "enough", "mixed", "more"]
"""Nothing could be left out; right so far, but of too few; well taught; taken for one other class, which more photos do
not help; or more photos are needed."""


@dataclass(frozen=True)
class TaughtEnough:
    """Of one class, photos that were left out and asked about.

    Attributes:
        name: of the class.
        asked: how many; 0 where nothing could be left out.
        right: of them, those answered with their class.
        half_asked: the same with every second photo of each class.
        half_right: of them.
        taken_for: the wrong answers and how often each was given, most frequent first.
    """

    name: str
    asked: int
    right: int
    half_asked: int
    half_right: int
    taken_for: tuple[tuple[str, int], ...]

    def shares(self) -> str:
        """Right answers with all photos, and with half of them, as `80% (half: 60%)`."""
        if not self.asked:
            return "-"
        return f"{self.right / self.asked:.0%}" + (
            f" (half: {self.half_right / self.half_asked:.0%})" if self.half_asked else ""
        )

    def verdict(self) -> TeachingVerdict:
        """How it stands with the class."""
        if not self.asked:
            return "alone"
        share = self.right / self.asked
        if share >= GOOD:
            return "few" if self.asked < FEW else "enough"
        gain = share - self.half_right / self.half_asked if self.half_asked else 1.0
        often = self.asked >= 2 * FEW and self.taken_for[0][1] >= OFTEN * self.asked
        return "mixed" if gain < WORTH and often else "more"

    def advice(self) -> str:
        """One line of what to do, or that nothing needs to be done."""
        wrong = ""
        if self.taken_for:
            other, times = self.taken_for[0]
            wrong = f"{times} of {self.asked} taken for {other}"
        told = {
            "alone": "add photos that differ, one alone cannot be judged",
            "few": f"only {self.asked} photos could be asked about: add some",
            "enough": "enough",
            "mixed": f"more photos have not helped, {wrong}: look for misplaced ones, or unite the two",
            "more": f"add photos, {wrong}",
        }
        return f"{self.name}: {told[self.verdict()]}"


@dataclass(frozen=True)
class CurvePoint:
    """How right the classes are when each is taught some of its photos.

    Attributes:
        photos: of a class, on average.
        classes: of each class photos that were left out and asked about, and of them those answered with it.
    """

    photos: float
    classes: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class JudgedPhoto:
    """A taught photo that was left out and asked about.

    Attributes:
        name: of its class.
        key: by which the model knows it.
        taken_for: the likeliest class.
        refused_from: the share of known photos that may be refused from which on this one is.
    """

    name: str
    key: int
    taken_for: str
    refused_from: float


def judge_teaching(model: PhotoModel) -> list[TaughtEnough]:
    """Of each class, in the order of names; nothing of a model of one class, where every answer would be right."""
    if len(model.classes) < 2:
        return []
    whole, half = left_out_answers(model), left_out_answers(half_model(model))
    found = []
    for name in model.head.names:
        said, less = whole.get(name, Counter()), half.get(name, Counter())
        wrong = tuple((other, times) for other, times in said.most_common() if other != name)
        found.append(TaughtEnough(name, said.total(), said[name], less.total(), less[name], wrong))
    return found


def half_model(model: PhotoModel) -> PhotoModel:
    """Taught every second photo of each class, of those that are kept singly, in the order of their keys."""
    classes = {name: _half(own) for name, own in model.classes.items()}
    return replace(model, classes=classes, calibration=None, known_covariance=None)


def _half(own: PhotoClass) -> PhotoClass:
    sums = own.sums
    return PhotoClass.of(sums.rows[::2].astype(np.float64), sums.keys[::2].tolist(), sums.looks[::2].tolist())


def left_out_answers(model: PhotoModel) -> dict[str, Counter[str]]:
    """Of each class that has photos which can be left out: the likeliest classes of these, and how often each is."""
    names, left_out = model.head.names, model.left_out
    found: dict[str, Counter[str]] = {}
    if left_out is not None:
        best = left_out.scores(model.head.calibration.shrink).argmax(1)
        for owner, answer in zip(left_out.owners.tolist(), best.tolist(), strict=True):
            found.setdefault(names[owner], Counter())[names[answer]] += 1
    return found


def teaching_curve(model: PhotoModel) -> list[CurvePoint]:
    """With all photos that are kept singly, every second, every fourth and so on; the fewest first."""
    points: list[CurvePoint] = []
    while len(model.classes) > 1:
        said = left_out_answers(model)
        if not said:
            break
        counts = [len(own.sums.keys) for own in model.classes.values()]
        shares = {name: (answers.total(), answers[name]) for name, answers in said.items()}
        points.insert(0, CurvePoint(sum(counts) / len(counts), shares))
        if max(counts) < 3:
            break
        model = half_model(model)
    return points


def judged_photos(model: PhotoModel) -> list[JudgedPhoto]:
    """The taught photos that can be left out, and what would become of each; those that are refused first at the start.

    Empty where the model cannot say "I don't know" yet.
    """
    if not model.classes or not model.head.calibration.can_refuse:
        return []
    left_out, head = model.left_out, model.head
    if left_out is None:
        return []
    best = left_out.scores(head.calibration.shrink).argmax(1)
    usual = NormalDist(head.calibration.familiar_mean, max(head.calibration.familiar_std, 1e-12))
    found = [
        JudgedPhoto(head.names[owner], int(key), head.names[answer], usual.cdf(float(familiar)))
        for owner, key, answer, familiar in zip(
            left_out.owners, left_out.keys, best, left_out.familiarity(), strict=True
        )
    ]
    return sorted(found, key=lambda one: (one.refused_from, one.name, one.key))


def advice_lines(judged: list[TaughtEnough]) -> list[str]:
    """What to do, the worst class first; one line for all classes of which nothing needs to be done."""
    poor = [one for one in judged if not one.advice().endswith(": enough")]
    poor.sort(key=lambda one: (one.right / one.asked if one.asked else -1.0, one.name))
    lines = [one.advice() for one in poor]
    if enough := len(judged) - len(poor):
        lines.append("all classes: enough" if not poor else f"the other {enough}: enough")
    return lines
