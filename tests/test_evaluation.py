import pytest

from protoreplay.evaluation import Count, accuracies, average, final, forgetting


def square(matrix, n=10):
    """Counts from rows of accuracies in tenths: row i is after task i."""
    return [Count(i, j, n, value) for i, row in enumerate(matrix, 1) for j, value in enumerate(row, 1)]


def test_hand_computed():
    counts = square([[10], [6, 9], [7, 3, 8]])
    assert accuracies(counts) == pytest.approx([1.0, 0.75, 0.6])
    assert average(counts) == pytest.approx((1.0 + 0.75 + 0.6) / 3)
    assert final(counts) == pytest.approx(0.6)
    assert forgetting(counts) == pytest.approx(((1.0 - 0.7) + (0.9 - 0.3)) / 2)


def test_accuracy_is_per_image_not_per_task():
    counts = [Count(1, 1, 100, 50), Count(2, 1, 100, 50), Count(2, 2, 10, 10)]
    assert final(counts) == pytest.approx(60 / 110)


def test_one_task_forgets_nothing():
    assert forgetting([Count(1, 1, 10, 4)]) == 0.0


def test_the_order_of_rows_does_not_matter():
    counts = square([[10], [6, 9], [7, 3, 8]])
    assert accuracies(reversed(counts)) == accuracies(counts)
    assert forgetting(counts[::-1]) == forgetting(counts)
