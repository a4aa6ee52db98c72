import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.metrics import accuracy as evaluation
from protoreplay.metrics.accuracy import ClassCount, Count

METRICS = (
    evaluation.average,
    evaluation.final,
    evaluation.forgetting,
    evaluation.backward_transfer,
    evaluation.first_task_retention,
    evaluation.performance_drop,
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
    assert evaluation.accuracies(counts) == pytest.approx([1.0, 0.75, 0.6])
    assert evaluation.average(counts) == pytest.approx((1.0 + 0.75 + 0.6) / 3)
    assert evaluation.final(counts) == pytest.approx(0.6)
    assert evaluation.forgetting(counts) == pytest.approx(((1.0 - 0.7) + (0.9 - 0.3)) / 2)
    assert evaluation.backward_transfer(counts) == pytest.approx(((0.7 - 1.0) + (0.3 - 0.9)) / 2)
    assert evaluation.performance_drop(counts) == pytest.approx(0.4)
    assert evaluation.first_task(counts) == pytest.approx([1.0, 0.6, 0.7])
    assert evaluation.first_task_retention(counts) == pytest.approx(0.7)


def test_forgetting_is_from_the_best_and_backward_transfer_from_the_first_time():
    counts = square([[5], [9, 4], [6, 4, 4]])
    assert evaluation.forgetting(counts) == pytest.approx(((0.9 - 0.6) + 0) / 2)
    assert evaluation.backward_transfer(counts) == pytest.approx(((0.6 - 0.5) + 0) / 2)


def test_forward_transfer_by_hand():
    later = [Count(1, 2, 10, 4), Count(2, 3, 10, 5)]
    counts = square([[10], [6, 9], [7, 3, 8]]) + later
    expected = ((0.4 - 0.1) + (0.5 - 0.2)) / 2
    assert evaluation.forward_transfer(counts, [0.3, 0.1, 0.2]) == pytest.approx(expected)
    before = [Count(0, 1, 10, 3), Count(0, 2, 10, 1), Count(0, 3, 10, 2)]
    assert evaluation.forward_transfer(counts + before) == pytest.approx(expected)


def test_forward_transfer_is_not_made_up():
    counts = square([[10], [6, 9], [7, 3, 8]])
    assert evaluation.forward_transfer(counts) is None
    assert evaluation.forward_transfer(counts, [0.1, 0.1, 0.1]) is None
    assert evaluation.forward_transfer([*counts, Count(1, 2, 10, 4)], [0.1, 0.1, 0.1]) is None
    assert evaluation.forward_transfer([*counts, Count(1, 2, 10, 4), Count(2, 3, 10, 5)]) is None


@given(triangles())
def test_rows_of_tasks_not_yet_trained_change_nothing_else(counts):
    tasks = max(row.trained for row in counts)
    ahead = [Count(i, i + 1, 10, 5) for i in range(1, tasks)] + [Count(0, j, 10, 1) for j in range(1, tasks + 1)]
    for metric in METRICS:
        assert metric(counts + ahead) == metric(counts)


def test_accuracy_is_per_image_not_per_task():
    counts = [Count(1, 1, 100, 50), Count(2, 1, 100, 50), Count(2, 2, 10, 10)]
    assert evaluation.final(counts) == pytest.approx(60 / 110)


@given(st.integers(1, 50), st.data())
def test_one_task_gives_zero_and_never_nan(n, data):
    counts = [Count(1, 1, n, data.draw(st.integers(0, n)))]
    zero = (evaluation.forgetting, evaluation.backward_transfer, evaluation.performance_drop)
    assert [metric(counts) for metric in zero] == [0, 0, 0]
    assert evaluation.forward_transfer(counts) == 0
    assert all(math.isfinite(metric(counts)) for metric in METRICS)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_constant_accuracies_forget_nothing(values):
    counts = [Count(i, j, 20, values[j - 1]) for i in range(1, len(values) + 1) for j in range(1, i + 1)]
    assert evaluation.forgetting(counts) == evaluation.backward_transfer(counts) == 0
    assert evaluation.first_task_retention(counts) == (1 if values[0] else 0)


@given(st.integers(2, 6), st.integers(-20, 20), st.data())
def test_a_constant_on_the_last_row_shifts_backward_transfer_by_it(tasks, shift, data):
    rows = [data.draw(st.lists(st.integers(20, 80), min_size=i, max_size=i)) for i in range(1, tasks + 1)]
    shifted = [*rows[:-1], [value + shift for value in rows[-1]]]
    before, after = (evaluation.backward_transfer(square(matrix, 100)) for matrix in (rows, shifted))
    assert after - before == pytest.approx(shift / 100)
    best_before, best_after = (evaluation.forgetting(square(matrix, 100)) for matrix in (rows, shifted))
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
    assert evaluation.accuracies(counts) == pytest.approx(seen)
    assert evaluation.average(counts) == pytest.approx(sum(seen) / last)
    assert evaluation.final(counts) == pytest.approx(seen[-1])
    assert evaluation.performance_drop(counts) == pytest.approx(seen[0] - seen[-1])
    assert evaluation.forgetting(counts) == pytest.approx(sum(forgotten) / max(1, last - 1))
    assert evaluation.backward_transfer(counts) == pytest.approx(sum(transferred) / max(1, last - 1))
    first = right[1, 1] / n[1, 1]
    kept = right[last, 1] / n[last, 1] / first if first else 0
    assert evaluation.first_task_retention(counts) == pytest.approx(kept)


@given(triangles())
def test_forgetting_is_never_less_than_what_transfer_took(counts):
    assert evaluation.forgetting(counts) >= -evaluation.backward_transfer(counts) - 1e-12


def test_accuracy_per_class():
    rows = [ClassCount(2, 1, 4, 1), ClassCount(1, 0, 10, 9), ClassCount(2, 0, 10, 5), ClassCount(1, 1, 4, 4)]
    assert evaluation.per_class(rows) == {0: [0.9, 0.5], 1: [1.0, 0.25]}
