import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.sums import SAMPLE, ClassSums, rooted, sample_size

FEATURES = rooted(np.random.default_rng(0).random((40, 7)))
KEYS = [int(key) for key in np.random.default_rng(1).permutation(1000)[:40]]


def sums(indices):
    return ClassSums.of(FEATURES[indices], [KEYS[i] for i in indices])


def test_roots_have_unit_length_and_keep_signs():
    roots = rooted(np.array([[4.0, -9.0, 0.0], [0.0, 0.0, 0.0]]))
    assert np.allclose(roots, [[2 / 13**0.5, -3 / 13**0.5, 0], [0, 0, 0]])


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(1, 39), min_size=1, max_size=4, unique=True))
def test_any_order_in_any_portions_gives_the_same(order, cuts):
    whole = sums(list(range(40)))
    bounds = [0, *sorted(cuts), 40]
    portions = [sums(order[a:b]) for a, b in itertools.pairwise(bounds)]
    added = portions[0]
    for portion in portions[1:]:
        added = added + portion
    assert added.count == 40
    assert np.allclose(added.total, whole.total, atol=1e-12)
    assert np.allclose(added.scatter, whole.scatter, atol=1e-12)
    assert np.array_equal(added.sample_keys, whole.sample_keys)
    assert np.array_equal(added.sample, whole.sample)


def test_mean_and_scatter():
    rows = FEATURES[:5]
    assert np.allclose(sums([0, 1, 2, 3, 4]).mean, rows.mean(0))
    assert np.allclose(sums([0, 1, 2, 3, 4]).scatter, rows.var(0) * 5)
    assert np.array_equal(sums([3]).scatter, np.zeros(7))


def test_the_sample_is_bounded():
    whole = sums(list(range(40)))
    assert whole.sample.shape == (SAMPLE, 7)
    fewer = whole.with_sample_of(4)
    assert fewer.sample_keys.tolist() == sorted(KEYS)[:4]
    assert np.array_equal(fewer.sample, whole.sample[:4])
    assert fewer.count == 40
    assert whole.with_sample_of(SAMPLE) is whole


@pytest.mark.parametrize(("classes", "expected"), [(0, 10), (1, 10), (100, 10), (101, 9), (1000, 1), (10_000, 1)])
def test_many_classes_keep_fewer_samples_each(classes, expected):
    assert sample_size(classes) == expected
