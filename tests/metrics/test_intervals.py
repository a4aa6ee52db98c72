import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from protoreplay.metrics.intervals import Summary, bootstrap_interval, compare, holm, paired, summarise

VALUES = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=2, max_size=12)
P = st.floats(0, 1)


def test_summary_by_hand():
    (summary,) = summarise([[1.0, 2.0, 6.0]])
    assert (summary.n, summary.mean) == (3, 3)
    assert summary.std == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert summary.sem == pytest.approx(summary.std / math.sqrt(3))
    assert (summary.low, summary.high) == (1, 6)


def test_one_seed_has_a_mean_and_nothing_else():
    assert summarise([[7.0]]) == [Summary(1, 7.0)]
    assert paired([2.0]).p is None
    assert compare({0: 1.0}, {1: 1.0}) is None


@given(VALUES)
def test_summary_agrees_with_the_standard_library(values):
    (summary,) = summarise([values])
    assert summary.mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert summary.std == pytest.approx(statistics.stdev(values), abs=1e-9)
    assert min(values) - 1e-9 <= summary.low <= summary.mean + 1e-9
    assert summary.mean - 1e-9 <= summary.high <= max(values) + 1e-9


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


@pytest.mark.parametrize(("seeds", "least"), [(5, 0.88), (10, 0.925)])
def test_the_interval_covers_the_mean_about_as_often_as_it_says(seeds, least):
    samples = np.random.default_rng(seeds).normal(size=(seeds, 500))
    low, high = bootstrap_interval(samples)
    assert least < np.mean((low < 0) & (high > 0)) < 0.98


@given(VALUES)
def test_the_paired_test_agrees_with_scipy(values):
    tested = paired(values)
    if statistics.stdev(values) < 1e-6:
        return
    reference = stats.ttest_1samp(values, 0)
    interval = reference.confidence_interval(0.95)
    assert tested.p == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)
    assert (tested.low, tested.high) == pytest.approx(tuple(interval), rel=1e-6, abs=1e-6)


def test_equal_differences_have_the_p_of_the_exact_test():
    flipped = [sum(signs) for signs in itertools.product((1, -1), repeat=4)]
    exact = sum(abs(total) >= 4 for total in flipped) / len(flipped)
    assert paired([0.1, 0.1, 0.1, 0.1]).p == exact == 0.125
    assert paired([0.0, 0.0, 0.0]).p == 1


def test_only_common_seeds_are_compared():
    tested = compare({0: 5.0, 1: 7.0, 2: 100.0}, {0: 4.0, 1: 5.0, 9: 0.0})
    assert (tested.seeds, tested.difference) == (2, 1.5)
    swapped = compare({0: 4.0, 1: 5.0}, {0: 5.0, 1: 7.0})
    assert (swapped.difference, swapped.p) == (-1.5, tested.p)


def literal_holm(p_values, index):
    """The largest of the stepped values of all tests that are no less significant."""
    tests = [p for p in p_values if p is not None]
    smaller = [p for p in tests if p <= p_values[index]]
    return max(min(1, p * (1 + sum(other > p for other in tests) + (tests.count(p) - 1))) for p in smaller)


@given(st.lists(st.one_of(st.none(), P), max_size=8))
def test_holm_agrees_with_a_literal_one(p_values):
    corrected = holm(p_values)
    for index, p in enumerate(p_values):
        if p is None:
            assert corrected[index] is None
        else:
            assert corrected[index] == pytest.approx(literal_holm(p_values, index))
            assert p <= corrected[index] <= 1


def test_one_test_needs_no_correction():
    assert holm([0.02, None]) == [0.02, None]
