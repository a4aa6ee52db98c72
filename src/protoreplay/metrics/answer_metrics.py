"""From tables of single answers to confusion, accuracy by class, top-5 and calibration: pure functions.

All tables say after which task (`trained`, from 1) the answers were given; they are over the test images of all tasks
learned by then.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""Of confidence, of equal width."""
TOP = 5


class ConfusionCount(NamedTuple):
    """One row of `confusion.csv`: how many images of class `label` were answered `answer`."""

    trained: int
    label: int
    answer: int
    n: int


class ConfidenceBin(NamedTuple):
    """One row of `calibration.csv`: of `n` answers of about this confidence, so many were right; their mean confidence.

    `bin` is the number of the bin, from 0; the mean is rounded to six digits.
    """

    trained: int
    bin: int
    n: int
    correct: int
    confidence: float


def confusion_matrix(rows: Iterable[ConfusionCount]) -> tuple[list[int], NDArray[np.int64]]:
    """The classes, ascending, and how often each (down) was answered as each (across), after the last task.

    Examples:
        >>> classes, matrix = confusion_matrix([ConfusionCount(1, 3, 3, 9), ConfusionCount(1, 3, 5, 1)])
        >>> classes, matrix.tolist()
        ([3, 5], [[9, 1], [0, 0]])
    """
    last = _after_last(rows)
    classes = sorted({label for row in last for label in (row.label, row.answer)})
    place = {label: number for number, label in enumerate(classes)}
    matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for row in last:
        matrix[place[row.label], place[row.answer]] += row.n
    return classes, matrix


def accuracy_by_class(rows: Iterable[ConfusionCount]) -> dict[int, float]:
    """Accuracy on the images of each class, after the last task.

    Examples:
        >>> accuracy_by_class([ConfusionCount(1, 3, 3, 9), ConfusionCount(1, 3, 5, 1), ConfusionCount(1, 5, 5, 2)])
        {3: 0.9, 5: 1.0}
    """
    return {label: group_accuracy(_after_last(rows), [label]) for label in sorted({row.label for row in rows})}


def group_accuracy(rows: Iterable[ConfusionCount], classes: Collection[int]) -> float:
    """Accuracy on the images of some classes, among all classes known, after the last task; NaN without images.

    Examples:
        >>> group_accuracy([ConfusionCount(1, 3, 3, 9), ConfusionCount(1, 3, 5, 1), ConfusionCount(1, 5, 5, 2)], {3, 5})
        0.9166666666666666
    """
    own = [row for row in _after_last(rows) if row.label in classes]
    images = sum(row.n for row in own)
    return sum(row.n for row in own if row.answer == row.label) / images if images else float("nan")


def expected_calibration_error(rows: Iterable[ConfidenceBin]) -> float:
    """How far confidence is from accuracy: `sum_b n_b / n |accuracy_b - confidence_b|`, after the last task.

    Examples:
        >>> round(expected_calibration_error([ConfidenceBin(1, 9, 10, 5, 0.6), ConfidenceBin(1, 14, 30, 27, 1.0)]), 6)
        0.1
    """
    found = list(rows)
    last = max((row.trained for row in found), default=0)
    own = [row for row in found if row.trained == last]
    images = sum(row.n for row in own)
    return sum(abs(row.correct - row.n * row.confidence) for row in own) / images if images else float("nan")


def mean_by_class(tables: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """Of several runs, the mean accuracy of each class over those that know it."""
    values: dict[int, list[float]] = {}
    for table in tables:
        for label, value in table.items():
            values.setdefault(label, []).append(value)
    return {label: sum(found) / len(found) for label, found in sorted(values.items())}


def _after_last(rows: Iterable[ConfusionCount]) -> list[ConfusionCount]:
    found = list(rows)
    last = max((row.trained for row in found), default=0)
    return [row for row in found if row.trained == last]
