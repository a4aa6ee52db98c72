import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.metrics import accuracy
from protoreplay.metrics.accuracy import Count

METRICS = (
    accuracy.average_accuracy,
    accuracy.final_accuracy,
    accuracy.forgetting,
    accuracy.backward_transfer,
    accuracy.first_task_retention,
    accuracy.performance_drop,
)


def square(matrix, n=10):
    """Counts from rows of accuracies in tenths: row i is after task i."""
    return [Count(i, j, n, value) for i, row in enumerate(matrix, 1) for j, value in enumerate(row, 1)]


@st.composite
def triangles(draw, most=6):
    """Rows of accuracies after each task, and the number of test images of each task."""
    tasks = draw(st.integers(1, most))
    n = [draw(st.integers(1, 40)) for _ in range(tasks)]
    rows = [[draw(st.integers(0, n[j])) for j in range(i + 1)] for i in range(tasks)]
    return [Count(i + 1, j + 1, n[j], value) for i, row in enumerate(rows) for j, value in enumerate(row)]


def test_hand_computed():
    counts = square([[10], [6, 9], [7, 3, 8]])
    assert accuracy.accuracies(counts) == pytest.approx([1.0, 0.75, 0.6])
    assert accuracy.average_accuracy(counts) == pytest.approx((1.0 + 0.75 + 0.6) / 3)
    assert accuracy.final_accuracy(counts) == pytest.approx(0.6)
    assert accuracy.forgetting(counts) == pytest.approx(((1.0 - 0.7) + (0.9 - 0.3)) / 2)
    assert accuracy.backward_transfer(counts) == pytest.approx(((0.7 - 1.0) + (0.3 - 0.9)) / 2)
    assert accuracy.performance_drop(counts) == pytest.approx(0.4)
    assert accuracy.first_task_accuracies(counts) == pytest.approx([1.0, 0.6, 0.7])
    assert accuracy.first_task_retention(counts) == pytest.approx(0.7)


def test_forgetting_is_from_the_best_and_backward_transfer_from_the_first_time():
    counts = square([[5], [9, 4], [6, 4, 4]])
    assert accuracy.forgetting(counts) == pytest.approx(((0.9 - 0.6) + 0) / 2)
    assert accuracy.backward_transfer(counts) == pytest.approx(((0.6 - 0.5) + 0) / 2)


@given(triangles())
def test_rows_of_tasks_not_yet_trained_change_nothing_else(counts):
    tasks = max(row.trained for row in counts)
    ahead = [Count(i, i + 1, 10, 5) for i in range(1, tasks)] + [Count(0, j, 10, 1) for j in range(1, tasks + 1)]
    for metric in METRICS:
        assert metric(counts + ahead) == metric(counts)


def test_accuracy_is_per_image_not_per_task():
    counts = [Count(1, 1, 100, 50), Count(2, 1, 100, 50), Count(2, 2, 10, 10)]
    assert accuracy.final_accuracy(counts) == pytest.approx(60 / 110)


@given(st.integers(1, 50), st.data())
def test_one_task_gives_zero_and_never_nan(n, data):
    counts = [Count(1, 1, n, data.draw(st.integers(0, n)))]
    zero = (accuracy.forgetting, accuracy.backward_transfer, accuracy.performance_drop)
    assert [metric(counts) for metric in zero] == [0, 0, 0]
    assert all(math.isfinite(metric(counts)) for metric in METRICS)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_constant_accuracies_forget_nothing(values):
    counts = [Count(i, j, 20, values[j - 1]) for i in range(1, len(values) + 1) for j in range(1, i + 1)]
    assert accuracy.forgetting(counts) == accuracy.backward_transfer(counts) == 0
    assert accuracy.first_task_retention(counts) == (1 if values[0] else 0)


@given(st.integers(2, 6), st.integers(-20, 20), st.data())
def test_a_constant_on_the_last_row_shifts_backward_transfer_by_it(tasks, shift, data):
    rows = [data.draw(st.lists(st.integers(20, 80), min_size=i, max_size=i)) for i in range(1, tasks + 1)]
    shifted = [*rows[:-1], [value + shift for value in rows[-1]]]
    before, after = (accuracy.backward_transfer(square(matrix, 100)) for matrix in (rows, shifted))
    assert after - before == pytest.approx(shift / 100)
    best_before, best_after = (accuracy.forgetting(square(matrix, 100)) for matrix in (rows, shifted))
    assert best_after - best_before == pytest.approx(-shift / 100)


@given(triangles(), st.randoms())
def test_the_order_of_rows_does_not_matter(counts, random):
    shuffled = random.sample(counts, len(counts))
    for metric in METRICS:
        assert metric(shuffled) == metric(counts)


@settings(max_examples=200)
@given(triangles())
def test_agreement_with_the_formulas_written_out(counts):
    """Slow and literal, from sums over images of every (i, j)."""
    n = {(c.trained, c.tested): c.n for c in counts}
    right = {(c.trained, c.tested): c.correct for c in counts}
    last = max(i for i, _ in n)
    seen = []
    for i in range(1, last + 1):
        images = answers = 0
        for j in range(1, i + 1):
            images += n[i, j]
            answers += right[i, j]
        seen.append(answers / images)
    forgotten, transferred = [], []
    for j in range(1, last):
        best = 0
        for i in range(j, last):
            best = max(best, right[i, j] / n[i, j])
        forgotten.append(best - right[last, j] / n[last, j])
        transferred.append(right[last, j] / n[last, j] - right[j, j] / n[j, j])
    assert accuracy.accuracies(counts) == pytest.approx(seen)
    assert accuracy.average_accuracy(counts) == pytest.approx(sum(seen) / last)
    assert accuracy.final_accuracy(counts) == pytest.approx(seen[-1])
    assert accuracy.performance_drop(counts) == pytest.approx(seen[0] - seen[-1])
    assert accuracy.forgetting(counts) == pytest.approx(sum(forgotten) / max(1, last - 1))
    assert accuracy.backward_transfer(counts) == pytest.approx(sum(transferred) / max(1, last - 1))
    first = right[1, 1] / n[1, 1]
    kept = right[last, 1] / n[last, 1] / first if first else 0
    assert accuracy.first_task_retention(counts) == pytest.approx(kept)


@given(triangles())
def test_forgetting_is_never_less_than_what_transfer_took(counts):
    assert accuracy.forgetting(counts) >= -accuracy.backward_transfer(counts) - 1e-12
