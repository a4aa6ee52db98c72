"""From one table of counts to every metric: pure functions.

A count says how many of `n` test images of task `tested` were answered correctly after training on task `trained`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Count(NamedTuple):
    """One row of `counts.csv`; tasks are numbered from 1."""

    trained: int
    tested: int
    n: int
    correct: int


def accuracies(counts: Iterable[Count]) -> list[float]:
    """Accuracy on everything seen so far, after each task: `A_i = sum_j correct_ij / sum_j n_ij` over j <= i.

    >>> accuracies([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)])
    [0.9, 0.75]
    """
    n: dict[int, int] = {}
    correct: dict[int, int] = {}
    for row in counts:
        if row.tested <= row.trained:
            n[row.trained] = n.get(row.trained, 0) + row.n
            correct[row.trained] = correct.get(row.trained, 0) + row.correct
    return [correct[task] / n[task] for task in sorted(n)]


def average(counts: Iterable[Count]) -> float:
    """Mean over the tasks of the accuracy on everything seen so far: `mean_i A_i`."""
    values = accuracies(counts)
    return sum(values) / len(values)


def final(counts: Iterable[Count]) -> float:
    """Accuracy on everything after the last task: `A_T`."""
    return accuracies(counts)[-1]


def forgetting(counts: Sequence[Count]) -> float:
    """How far tasks fell from their best: `mean_{j<T} (max_{j<=i<T} a_ij - a_Tj)`.

    `a_ij` is the accuracy on task j after task i. 0 where there is one task, negative where old tasks got better.

    >>> forgetting([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)])
    0.4
    """
    accuracy = {(row.trained, row.tested): row.correct / row.n for row in counts}
    last = max(row.trained for row in counts)
    drops = [
        max(accuracy[trained, tested] for trained in range(tested, last)) - accuracy[last, tested]
        for tested in range(1, last)
    ]
    return sum(drops) / len(drops) if drops else 0.0
