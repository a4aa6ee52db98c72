"""How far a mean over a few seeds can be trusted: spread, intervals, paired tests. Pure functions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Of every interval."""


@dataclass(frozen=True)
class SeedSummary:
    """A mean over `n` seeds; what needs two of them is None where there is one.

    Attributes:
        n: number of values.
        mean: their mean.
        std: standard deviation, with n - 1.
        sem: standard error of the mean, `std / sqrt(n)`.
        low: lower end of Student's interval for the mean at `CONFIDENCE`.
        high: its upper end.
    """

    n: int
    mean: float
    std: float | None = None
    sem: float | None = None
    low: float | None = None
    high: float | None = None


def summarise(columns: Sequence[Sequence[float]]) -> list[SeedSummary]:
    """Mean, spread and interval of each of several quantities, each with one value a seed."""
    values = np.asarray(columns, dtype=np.float64).T
    n, means = len(values), values.mean(axis=0)
    if n < 2:
        return [SeedSummary(n, float(mean)) for mean in means]
    stds = values.std(axis=0, ddof=1)
    ends = zip(*student_interval(values), strict=True)
    return [
        SeedSummary(n, float(mean), float(std), float(std) / math.sqrt(n), float(low), float(high))
        for mean, std, (low, high) in zip(means, stds, ends, strict=True)
    ]


def student_interval(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Student's interval at `CONFIDENCE` for the mean over seeds of each column.

    Accuracies over thousands of images are near to normal, so it covers the true mean in 95 of 100 cases at any number
    of seeds. A bootstrap cannot: with three values it never leaves their range, which holds the mean in 75 of 100.

    Args:
        values: seeds x columns, at least two seeds.

    Returns:
        The two ends, one number a column each.
    """
    from scipy.special import stdtrit

    n, mean = len(values), values.mean(axis=0)
    reach = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * values.std(axis=0, ddof=1) / math.sqrt(n)
    return mean - reach, mean + reach


@dataclass(frozen=True)
class PairedComparison:
    """A paired difference over common seeds; interval and p are None where there are fewer than two.

    Attributes:
        seeds: how many seeds both have.
        difference: mean of the first minus the second.
        low: lower end of Student's interval at `CONFIDENCE`.
        high: its upper end.
        p: two-sided p of the paired t test.
    """

    seeds: int
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def compare_seeds(first: Mapping[int, float], second: Mapping[int, float]) -> PairedComparison | None:
    """The paired t test of two methods on the seeds they share, by seed; None where they share none.

    Seeds fix the drawn images, so methods rise and fall together with them and only differences within a seed count.
    Why t and not signs flipped exactly: the smallest p of the exact test is `2^(1-n)`, 0.25 at 3 seeds and 0.06 at 5,
    so it could mark nothing there, while a difference of accuracies, each over thousands of images, is near to normal.
    Where all differences are equal the t test knows no spread; then p is that of the exact test.
    """
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    return paired_t_test(differences) if differences else None


def paired_t_test(differences: Sequence[float]) -> PairedComparison:
    """As `compare_seeds`, of one difference a seed."""
    # Takes a second to import, and only tables of several methods need it.
    from scipy import stats

    n, mean = len(differences), math.fsum(differences) / len(differences)
    if n < 2:
        return PairedComparison(n, mean)
    if max(abs(value - mean) for value in differences) <= 1e-12 * max(map(abs, differences)):
        return PairedComparison(n, mean, mean, mean, 2.0 ** (1 - n) if mean else 1.0)
    tested = stats.ttest_1samp(differences, 0)
    low, high = tested.confidence_interval(CONFIDENCE)
    return PairedComparison(n, mean, float(low), float(high), float(tested.pvalue))


def holm_correction(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of a family of tests, in their order: reject where the result is below the level.

    The k-th smallest of m is multiplied by `m - k + 1`, and never falls below one before it. None is not a test.

    Examples:
        >>> holm_correction([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    tests = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(tests):
        running = max(running, min(1.0, p * (len(tests) - rank)))
        corrected[index] = running
    return corrected
