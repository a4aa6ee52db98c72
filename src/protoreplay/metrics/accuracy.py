"""From one table of counts to every metric: pure functions.

A count says how many of `n` test images of task `tested` were answered correctly after training on task `trained`.
In formulas `a_ij` is the accuracy on task j after task i, `A_i` that on all images of tasks 1..i after task i, and T
the last task. All are fractions of 1. Where a library has the same quantity, its name there is given; where the same
name means something else, that is said too.
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

    PyCIL: "CNN top1 curve". The mean over tasks instead of images is GEM's ACC; they differ where tasks differ in size.

    Examples:
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


def average_accuracy(counts: Iterable[Count]) -> float:
    """Mean over the tasks of the accuracy on everything seen so far: `mean_i A_i`.

    iCaRL's average incremental accuracy. Continuum: `average_incremental_accuracy`; PyCIL: "Average Accuracy (CNN)".
    """
    values = accuracies(counts)
    return sum(values) / len(values)


def final_accuracy(counts: Iterable[Count]) -> float:
    """Accuracy on everything after the last task: `A_T`.

    Avalanche: `Top1_Acc_Stream` on the whole test stream after the last experience; PyCIL: end of "CNN top1 curve".
    """
    return accuracies(counts)[-1]


def performance_drop(counts: Iterable[Count]) -> float:
    """From the first task to the last, on everything seen: `A_1 - A_T`. 0 where there is one task.

    PD, the performance dropping rate, of the literature on few-shot class-incremental learning.

    Examples:
        >>> round(performance_drop([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)]), 12)
        0.15
    """
    values = accuracies(counts)
    return values[0] - values[-1]


def accuracy_matrix(counts: Iterable[Count]) -> dict[tuple[int, int], float]:
    """`a_ij` by (i, j), for the rows there are. FACIL: `acc_tag`, as no task identity is given at test time."""
    return {(row.trained, row.tested): row.correct / row.n for row in counts}


def forgetting(counts: Sequence[Count]) -> float:
    """How far tasks fell from their best: `mean_{j<T} (max_{j<=i<T} a_ij - a_Tj)`.

    0 where there is one task, negative where old tasks got better. FACIL: mean of the last row of `forg_tag`.
    Mammoth's `forgetting` and PyCIL's "Forgetting (CNN)" let the maximum include the last task, so are never negative;
    Avalanche's `StreamForgetting` takes `a_jj` for the best, so is minus our backward transfer.

    Examples:
        >>> forgetting([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)])
        0.4
    """
    accuracy, last = accuracy_matrix(counts), _last(counts)
    return _mean(
        max(accuracy[trained, tested] for trained in range(tested, last)) - accuracy[last, tested]
        for tested in range(1, last)
    )


def backward_transfer(counts: Sequence[Count]) -> float:
    """What later tasks did to earlier ones: `mean_{j<T} (a_Tj - a_jj)`. 0 where there is one task.

    GEM's BWT. Avalanche: `StreamBWT`; Mammoth and Continuum: `backward_transfer` (Continuum averages over all i > j,
    not only the last task).

    Examples:
        >>> backward_transfer([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)])
        -0.4
    """
    accuracy, last = accuracy_matrix(counts), _last(counts)
    return _mean(accuracy[last, task] - accuracy[task, task] for task in range(1, last))


def first_task_accuracies(counts: Iterable[Count]) -> list[float]:
    """Accuracy on the first task after each task: `a_i1` for i = 1..T."""
    rows = {row.trained: row.correct / row.n for row in counts if row.tested == 1 <= row.trained}
    return [rows[trained] for trained in sorted(rows)]


def first_task_retention(counts: Iterable[Count]) -> float:
    """The share of the first task's accuracy that is left at the end: `a_T1 / a_11`.

    1 where there is one task, above 1 where it got better, 0 where the first task was never known.

    Examples:
        >>> first_task_retention([Count(1, 1, 10, 8), Count(2, 1, 10, 4), Count(2, 2, 10, 10)])
        0.5
    """
    values = first_task_accuracies(counts)
    return values[-1] / values[0] if values[0] else 0.0


def base_accuracy(counts: Iterable[Count]) -> float:
    """Accuracy on the classes of the first task after the last: `a_T1`. In the FSCIL literature: base, or old."""
    return first_task_accuracies(counts)[-1]


def novel_accuracy(counts: Sequence[Count]) -> float:
    """Accuracy on all later tasks together after the last: `sum_{j>1} correct_Tj / sum_{j>1} n_Tj`.

    In the FSCIL literature: novel, or new. NaN where there is one task.

    Examples:
        >>> novel_accuracy([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)])
        1.0
    """
    last = _last(counts)
    rows = [row for row in counts if row.trained == last and 1 < row.tested <= last]
    return sum(row.correct for row in rows) / sum(row.n for row in rows) if rows else float("nan")


def harmonic_accuracy(counts: Sequence[Count]) -> float:
    """Harmonic mean of base and novel accuracy, `2 b n / (b + n)`: 0 where one of them is; NaN where there is one task.

    HM of the literature on few-shot class-incremental learning.

    Examples:
        >>> round(harmonic_accuracy([Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 10)]), 12)
        0.666666666667
    """
    base, novel = base_accuracy(counts), novel_accuracy(counts)
    return 0.0 if base == 0 or novel == 0 else 2 * base * novel / (base + novel)


def _last(counts: Iterable[Count]) -> int:
    return max(row.trained for row in counts)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
