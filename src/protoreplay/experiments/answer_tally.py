"""What a method answers, counted while it is tested: confusion, calibration, the five most probable classes."""

import json
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from protoreplay.core.checked_json import checked_json
from protoreplay.metrics.accuracy import Count
from protoreplay.metrics.answer_metrics import BINS, TOP, ConfidenceBin, ConfusionCount

Answers = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]
"""Of one test: labels, answers, and the probability of each answer, N each."""


class _SavedRows(NamedTuple):
    confusion: list[ConfusionCount]
    calibration: list[ConfidenceBin]
    top: list[Count]


class AnswerTally:
    """Counts the answers of a run; `saved` is what `to_text` gave of an earlier one, to be continued."""

    def __init__(self, saved: str = "") -> None:
        said = checked_json(saved, _SavedRows) if saved else _SavedRows([], [], [])
        self.confusion, self.calibration, self.top = said
        self._answers: list[Answers] = []
        """Of the tests since the last `end_task`."""

    def to_text(self) -> str:
        """All that was counted up to the last `end_task`, for a checkpoint."""
        return json.dumps([self.confusion, self.calibration, self.top])

    def add(self, trained: int, classes: tuple[int, ...], tested: int, probabilities: Tensor, labels: Tensor) -> None:
        """Count answers.

        Args:
            trained: the last task learned.
            classes: those known then, C.
            tested: the task that the images are of.
            probabilities: N x C.
            labels: int64, N.
        """
        known, right = np.array(classes), labels.numpy()
        confidence, place = (part.numpy() for part in probabilities.max(1))
        self._answers.append((right, known[place], confidence))
        first = known[probabilities.topk(min(TOP, len(classes)), dim=1).indices.numpy()]
        self.top.append(Count(trained, tested, len(right), int((first == right[:, None]).any(1).sum())))

    def end_task(self, trained: int) -> None:
        """All tasks up to `trained` were tested."""
        # Once for all tests of the task: counting small arrays one by one takes as long as answering does.
        labels, answers, confidence = map(np.concatenate, zip(*self._answers, strict=True))
        self._answers = []
        width = int(max(labels.max(), answers.max())) + 1
        pairs, times = np.unique(labels * width + answers, return_counts=True)
        for pair, n in zip(pairs.tolist(), times.tolist(), strict=True):
            self.confusion.append(ConfusionCount(trained, pair // width, pair % width, n))
        number = np.clip((confidence * BINS).astype(np.int64), 0, BINS - 1)
        sums = [np.bincount(number, weights, BINS) for weights in (None, answers == labels, confidence)]
        for place, (n, correct, total) in enumerate(zip(*sums, strict=True)):
            if n:
                self.calibration.append(ConfidenceBin(trained, place, int(n), int(correct), round(total / n, 6)))
