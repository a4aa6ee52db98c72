import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoreplay.metrics.intervals import (
    SeedSummary,
    compare_seeds,
    holm_correction,
    paired_t_test,
    student_interval,
    summarise,
)

VALUES = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=2, max_size=12)
P = st.floats(0, 1)


def test_summary_by_hand():
    (summary,) = summarise([[1.0, 2.0, 6.0]])
    assert (summary.n, summary.mean) == (3, 3)
    assert summary.std == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert summary.sem == pytest.approx(summary.std / math.sqrt(3))
    reach = 0.95 * math.sqrt(2 / (1 - 0.95**2)) * summary.sem  # Student's quantile with two degrees of freedom
    assert (summary.low, summary.high) == pytest.approx((3 - reach, 3 + reach))


def test_one_seed_has_a_mean_and_nothing_else():
    assert summarise([[7.0]]) == [SeedSummary(1, 7.0)]
    assert paired_t_test([2.0]).p is None
    assert compare_seeds({0: 1.0}, {1: 1.0}) is None


@given(VALUES)
def test_summary_agrees_with_the_standard_library(values):
    (summary,) = summarise([values])
    assert summary.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert summary.std == pytest.approx(statistics.stdev(values), abs=1e-9)
    tested = paired_t_test(values)
    assert (summary.low, summary.high) == pytest.approx((tested.low, tested.high), abs=1e-6)


@given(VALUES, st.floats(-50, 50), st.floats(0.1, 10))
def test_the_interval_moves_and_grows_with_the_values(values, shift, scale):
    (before,) = summarise([values])
    (after,) = summarise([[scale * value + shift for value in values]])
    assert after.low == pytest.approx(scale * before.low + shift, abs=1e-6)
    assert after.high == pytest.approx(scale * before.high + shift, abs=1e-6)


def test_columns_do_not_touch_each_other():
    columns = [[1.0, 2.0, 4.0, 9.0, 3.0], [5.0, 5.0, 5.0, 5.0, 5.0]]
    together = summarise(columns)
    assert together == [summarise([column])[0] for column in columns]
    assert (together[1].low, together[1].high) == (5, 5)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_the_interval_covers_the_mean_as_often_as_it_says(seeds):
    """In 20,000 draws; the share has a standard error of 0.0015. Accuracies of few images are not quite normal."""
    random = np.random.default_rng(seeds)
    accuracies = random.binomial(1000, 0.45, (seeds, 20_000)) / 10 + random.normal(0, 2, (seeds, 20_000))
    for samples, mean in ((random.normal(size=(seeds, 20_000)), 0), (accuracies, 45)):
        low, high = student_interval(samples)
        assert np.mean((low < mean) & (high > mean)) == pytest.approx(0.95, abs=0.006)


def test_the_paired_test_by_hand():
    """Mean 2 and standard error 1/sqrt(3); with two degrees of freedom Student's distribution is algebraic."""
    tested = paired_t_test([1.0, 2.0, 3.0])
    t = 2 * math.sqrt(3)
    assert (tested.seeds, tested.difference) == (3, 2)
    assert tested.p == pytest.approx(1 - t / math.sqrt(2 + t**2))
    half = 0.95 * math.sqrt(2 / (1 - 0.95**2)) / math.sqrt(3)
    assert (tested.low, tested.high) == pytest.approx((2 - half, 2 + half))


@given(VALUES)
def test_the_paired_test_is_the_same_in_both_directions(values):
    tested, other = paired_t_test(values), paired_t_test([-value for value in values])
    assert (other.low, other.high, other.p) == pytest.approx((-tested.high, -tested.low, tested.p))
    assert tested.low <= tested.difference + 1e-9
    assert tested.difference <= tested.high + 1e-9


def test_equal_differences_have_the_p_of_the_exact_test():
    flipped = [sum(signs) for signs in itertools.product((1, -1), repeat=4)]
    exact = sum(abs(total) >= 4 for total in flipped) / len(flipped)
    assert paired_t_test([0.1, 0.1, 0.1, 0.1]).p == exact == 0.125
    assert paired_t_test([0.0, 0.0, 0.0]).p == 1


def test_only_common_seeds_are_compared():
    tested = compare_seeds({0: 5.0, 1: 7.0, 2: 100.0}, {0: 4.0, 1: 5.0, 9: 0.0})
    assert (tested.seeds, tested.difference) == (2, 1.5)
    swapped = compare_seeds({0: 4.0, 1: 5.0}, {0: 5.0, 1: 7.0})
    assert (swapped.difference, swapped.p) == (-1.5, tested.p)


def literal_holm(p_values, index):
    """The largest of the stepped values of all tests that are no less significant."""
    tests = [p for p in p_values if p is not None]
    smaller = [p for p in tests if p <= p_values[index]]
    return max(min(1, p * (1 + sum(other > p for other in tests) + (tests.count(p) - 1))) for p in smaller)


@given(st.lists(st.one_of(st.none(), P), max_size=8))
def test_holm_agrees_with_a_literal_one(p_values):
    corrected = holm_correction(p_values)
    for index, p in enumerate(p_values):
        if p is None:
            assert corrected[index] is None
        else:
            assert corrected[index] == pytest.approx(literal_holm(p_values, index))
            assert p <= corrected[index] <= 1


def test_one_test_needs_no_correction():
    assert holm_correction([0.02, None]) == [0.02, None]
