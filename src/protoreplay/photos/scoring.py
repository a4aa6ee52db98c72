"""How good a classifier is on photos whose class is known."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from protoreplay.core.words import counted
from protoreplay.photos.answers import Answer
from protoreplay.photos.photo_inputs import Photo

WRONG_COLUMNS = ("photo", "class", "answer", "nearest", "probability")


@dataclass(frozen=True)
class WrongAnswer:
    """A photo whose answer is not the right one.

    Attributes:
        photo: its path.
        owner: the name of its folder.
        answer: the class; None for "I don't know".
        nearest: the likeliest class.
        probability: of that.
    """

    photo: str
    owner: str
    answer: str | None
    nearest: str
    probability: float


@dataclass
class AnswerScore:
    """Counts over photos.

    Attributes:
        known: photos of known classes.
        right: of these, those answered with their class.
        nearest_right: of these, those whose likeliest class is right, refused or not.
        refused: of these, those answered "I don't know".
        strange: photos of no known class.
        strange_refused: of these, those answered "I don't know".
        unreadable: photos that could not be read.
        by_class: of each known class photos, right answers, and answers "I don't know"; the others were wrong.
        mistakes: photos by class and wrong answer.
        strange_taken: photos of no known class, by their folder and by the class they were taken for.
        wrong: the photos whose answer is not the right one.
        calibration: of ten equal ranges of the given probability: photos, sum of probabilities, right ones.
    """

    known: int = 0
    right: int = 0
    nearest_right: int = 0
    refused: int = 0
    strange: int = 0
    strange_refused: int = 0
    unreadable: int = 0
    by_class: dict[str, list[int]] = field(default_factory=dict)
    mistakes: Counter[tuple[str, str]] = field(default_factory=Counter)
    strange_taken: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[WrongAnswer] = field(default_factory=list)
    calibration: list[list[float]] = field(default_factory=lambda: [[0, 0.0, 0] for _ in range(10)])

    @property
    def calibration_error(self) -> float:
        """Mean difference between probability and share of right answers over the ranges, weighted by photos."""
        return sum(abs(given - right) for _, given, right in self.calibration) / max(self.known, 1)

    def as_json(self) -> str:
        """All counts and shares as one JSON object."""
        mistakes, taken = (
            [{"class": true, "answer": said, "photos": count} for (true, said), count in some.most_common()]
            for some in (self.mistakes, self.strange_taken)
        )
        about = {
            "photos": self.known,
            "accuracy": self.nearest_right / max(self.known, 1),
            "answered_right": self.right / max(self.known, 1),
            "refused": self.refused / max(self.known, 1),
            "calibration_error": self.calibration_error,
            "strange_photos": self.strange,
            "strange_refused": self.strange_refused / max(self.strange, 1),
            "unreadable": self.unreadable,
            "by_class": {
                name: {"photos": n, "right": right, "refused": refused, "wrong": n - right - refused}
                for name, (n, right, refused) in self.by_class.items()
            },
            "mistakes": mistakes,
            "strange_taken_for": taken,
        }
        return json.dumps(about, ensure_ascii=False)

    def as_text(self) -> str:
        """Shares, then a line for each class and for each of the ten most frequent mistakes."""
        lines = []
        if self.known:
            lines += [
                f"{counted(self.known, 'photo')} of known classes: "
                f"likeliest class right {self.nearest_right / self.known:.1%}, "
                f"answered and right {self.right / self.known:.1%}, 'I do not know' {self.refused / self.known:.1%}, "
                f"calibration error {self.calibration_error:.1%}"
            ]
        if self.strange:
            lines += [
                f"{counted(self.strange, 'photo')} of no known class: "
                f"'I do not know' {self.strange_refused / self.strange:.1%}"
            ]
        for name, (n, right, refused) in sorted(self.by_class.items()):
            rest = f", {refused} 'I do not know'" if refused else ""
            rest += f", {n - right - refused} wrong" if n - right - refused else ""
            lines.append(f"  {name}: {right} of {n} right{rest}")
        lines += [f"  {true} taken for {said}: {n}" for (true, said), n in self.mistakes.most_common(10)]
        lines += [
            f"  {folder} (no known class) taken for {said}: {n}"
            for (folder, said), n in self.strange_taken.most_common(10)
        ]
        return "\n".join(lines)


def score_answers(
    predict: Callable[[Iterable[Photo]], Iterable[Answer]],
    known: Collection[str],
    photos: Mapping[str, Sequence[Photo]],
    tell: Callable[[int], None] = lambda done: None,
    warn: Callable[[str], None] = lambda line: None,
) -> AnswerScore:
    """Ask about photos by class name; those whose name is not among the `known` are photos of no known class."""
    score = AnswerScore()
    owners = [name for name, some in photos.items() for _ in some]
    for owner, answer in zip(owners, predict(p for some in photos.values() for p in some), strict=True):
        tell(1)
        if answer.error:
            score.unreadable += 1
            warn(f"{answer.photo}: {answer.error}")
            continue
        best = answer.choices[0]
        if owner not in known:
            score.strange += 1
            score.strange_refused += answer.label is None
            if answer.label is not None:
                score.strange_taken[owner, answer.label] += 1
        else:
            _count(score, owner, answer.label, best.label, best.probability)
        if answer.label != (owner if owner in known else None):
            score.wrong.append(WrongAnswer(answer.photo, owner, answer.label, best.label, best.probability))
    return score


def wrong_as_csv(wrong: Iterable[WrongAnswer]) -> str:
    """A line for each photo whose answer is not the right one; `answer` is empty for "I don't know"."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(WRONG_COLUMNS)
    for one in wrong:
        lines.writerow([one.photo, one.owner, one.answer or "", one.nearest, f"{one.probability:.4f}"])
    return text.getvalue()


def _count(score: AnswerScore, owner: str, said: str | None, nearest: str, probability: float) -> None:
    score.known += 1
    score.refused += said is None
    score.right += said == owner
    score.nearest_right += nearest == owner
    counts = score.by_class.setdefault(owner, [0, 0, 0])
    counts[0] += 1
    counts[1] += said == owner
    counts[2] += said is None
    if said not in (owner, None):
        score.mistakes[owner, nearest] += 1
    range_ = score.calibration[min(int(probability * 10), 9)]
    range_[0] += 1
    range_[1] += probability
    range_[2] += nearest == owner
