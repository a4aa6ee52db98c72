"""What a method answers, counted while it is tested: confusion, calibration, the five most probable classes."""

import json
from typing import NamedTuple

import numpy as np
from torch import Tensor

from protoreplay.core.checked_json import checked_json
from protoreplay.metrics.accuracy import Count
from protoreplay.metrics.answer_metrics import BINS, TOP, ConfidenceBin, ConfusionCount


class _SavedRows(NamedTuple):
    confusion: list[ConfusionCount]
    calibration: list[ConfidenceBin]
    top: list[Count]


class AnswerTally:
    """Counts the answers of a run; `saved` is what `to_text` gave of an earlier one, to be continued."""

    def __init__(self, saved: str = "") -> None:
        said = checked_json(saved, _SavedRows) if saved else _SavedRows([], [], [])
        self.confusion, self.calibration, self.top = said
        self._pairs: dict[tuple[int, int], int] = {}
        self._bins = np.zeros((3, BINS))

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
        answers = known[place]
        pairs, times = np.unique(np.stack([right, answers]), axis=1, return_counts=True)
        for (label, answer), n in zip(pairs.T.tolist(), times.tolist(), strict=True):
            self._pairs[label, answer] = self._pairs.get((label, answer), 0) + n
        number = np.clip((confidence * BINS).astype(np.int64), 0, BINS - 1)
        for row, weights in enumerate((np.ones(len(right)), answers == right, confidence)):
            self._bins[row] += np.bincount(number, weights.astype(np.float64), BINS)
        first = known[probabilities.topk(min(TOP, len(classes)), dim=1).indices.numpy()]
        self.top.append(Count(trained, tested, len(right), int((first == right[:, None]).any(1).sum())))

    def end_task(self, trained: int) -> None:
        """All tasks up to `trained` were tested."""
        self.confusion += [ConfusionCount(trained, *pair, n) for pair, n in sorted(self._pairs.items())]
        for number, (n, correct, confidence) in enumerate(self._bins.T.tolist()):
            if n:
                self.calibration.append(ConfidenceBin(trained, number, int(n), int(correct), round(confidence / n, 6)))
        self._pairs, self._bins = {}, np.zeros((3, BINS))
