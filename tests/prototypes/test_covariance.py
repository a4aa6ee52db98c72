import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.covariance import RidgeInverse, SharedCovariance
from protoreplay.prototypes.sums import ClassSums


def classes(counts, width, seed=0):
    random = np.random.default_rng(seed)
    keys = iter(range(10_000))
    return [
        ClassSums.of(
            random.normal(size=width) + random.normal(size=(count, width)) * np.linspace(2, 0.3, width),
            [next(keys) for _ in range(count)],
            weights=random.choice([1.0, 2.0], count),
        )
        for count in counts
    ]


def brute_force(members, width):
    scatter, freedom = np.zeros((width, width)), -len(members)
    for member in members:
        rows, even = member.scatter_rows(), member.even_scatter
        scatter += rows.T @ rows + even * np.eye(width)
        freedom += member.count
    return scatter / max(freedom, 1)


def dense_inverse(covariance, ridge, kind):
    if kind == "diagonal":
        covariance = np.diag(covariance.diagonal())
    if kind == "identity":
        covariance = np.eye(len(covariance)) * covariance.diagonal().mean()
    return np.linalg.inv(covariance + ridge * np.eye(len(covariance)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.sampled_from([1, 2, 7, 12, 40]),
    st.sampled_from([0.01, 1.0, 20.0]),
    st.sampled_from(["full", "diagonal", "identity"]),
    st.booleans(),
)
def test_the_inverse_is_that_of_the_dense_matrix(counts, width, ridge, kind, reduced):
    members = classes(counts, width)
    if reduced:  # then there is scatter that is even in all directions
        members = [member.reduced(2, 1) for member in members]
    expected = dense_inverse(brute_force(members, width), ridge, kind)
    covariance = SharedCovariance.of_classes(members, width)
    assert bool(covariance.dense.size) == (sum(member.scatter_size for member in members) >= width)
    inverse = covariance.inverse(ridge, kind)
    for number in (1, 3, 2 * width):  # few rows are multiplied in another way than many
        rows = np.random.default_rng(1).normal(size=(number, width))
        assert np.allclose(inverse.times(rows), rows @ expected, rtol=1e-8, atol=1e-8 / ridge)
        assert np.allclose(inverse.lengths(rows), ((rows @ expected) * rows).sum(1), rtol=1e-8, atol=1e-7 / ridge)
    stacked = rows.reshape(2, width, width)
    assert np.allclose(inverse.times(stacked), stacked @ expected, rtol=1e-8, atol=1e-8 / ridge)
    assert np.allclose(inverse.lengths(stacked), ((stacked @ expected) * stacked).sum(2), rtol=1e-8, atol=1e-7 / ridge)


@pytest.mark.parametrize("even", [0.0, 3.0])
@pytest.mark.parametrize("kind", ["full", "diagonal", "identity"])
def test_rows_and_their_products_give_the_same(even, kind):
    rows = np.random.default_rng(0).normal(size=(9, 10))
    asked = np.random.default_rng(1).normal(size=(4, 10))
    as_rows = SharedCovariance.of_rows([rows[:4], rows[4:]], 10, even, 7.0)
    as_dense = SharedCovariance(rows[:0], rows.T @ rows, even, 7.0)
    assert as_rows.width == as_dense.width == 10
    assert np.allclose(as_rows.diagonal(), as_dense.diagonal())
    assert np.isclose(as_rows.mean_eigenvalue(), as_dense.mean_eigenvalue())
    expected = dense_inverse((rows.T @ rows + even * np.eye(10)) / 7, 0.3, kind)
    for covariance in (as_rows, as_dense):
        assert np.allclose(covariance.inverse(0.3, kind).times(asked), asked @ expected)


@pytest.mark.parametrize("width", [5, 40])
def test_the_spectrum_is_the_covariance(width):
    members = classes([4, 3, 6], width)
    covariance = SharedCovariance.of_classes(members, width)
    values, vectors, coordinates = covariance.spectrum
    assert np.allclose((vectors.T * values) @ vectors, brute_force(members, width))
    assert np.allclose(vectors @ vectors.T, np.eye(len(values)))
    if len(coordinates):
        assert np.allclose(coordinates, covariance.rows @ vectors.T)


@pytest.mark.parametrize("width", [3, 14, 60])
def test_one_class_more_is_all_classes_from_scratch(width):
    """As rows before and after, as rows before and products after, and as products before and after."""
    members = [member.reduced(3, 2) for member in classes([4, 3, 9, 2], width)]
    before, scratch = (SharedCovariance.of_classes(some, width) for some in (members[:-1], members))
    more = before.plus_class(members[-1])
    assert (more.even, more.freedom) == pytest.approx((scratch.even, scratch.freedom))
    asked = np.random.default_rng(1).normal(size=(4, width))
    assert np.allclose(more.inverse(0.5).times(asked), scratch.inverse(0.5).times(asked))


def test_degrees_of_freedom_below_zero_are_not_forgotten():
    """Three classes of weight a half each, and then one of weight 9: 10.5 features of four classes."""
    light = [ClassSums.of(np.ones((1, 2)) * k, [k], weights=np.array([0.5])) for k in range(3)]
    heavy = ClassSums.of(np.random.default_rng(0).normal(size=(9, 2)), range(10, 19))
    more = SharedCovariance.of_classes(light, 2).plus_class(heavy)
    assert more.freedom == SharedCovariance.of_classes([*light, heavy], 2).freedom == 6.5


@pytest.mark.parametrize("kind", ["full", "diagonal", "identity"])
def test_where_nothing_has_varied_the_ridge_is_all(kind):
    members = [ClassSums.of(np.full((1, 4), float(k)), [k]) for k in range(3)]
    covariance = SharedCovariance.of_classes(members, 4)
    assert covariance.mean_eigenvalue() == 0
    assert covariance.freedom == 0
    asked = np.arange(8.0).reshape(2, 4)
    assert np.allclose(covariance.inverse(0.5, kind).times(asked), asked * 2)


def test_many_rows_are_added_in_pieces():
    rows = np.random.default_rng(0).normal(size=(9000, 3))
    whole = SharedCovariance.of_rows((rows[at : at + 1500] for at in range(0, 9000, 1500)), 3, 0.0, 8999.0)
    assert np.allclose(whole.dense, rows.T @ rows)
    assert not len(whole.rows)


def test_a_flat_inverse_needs_no_bend():
    inverse = RidgeInverse(np.array([1.0, 2.0]), 1, np.zeros((0, 2)))
    assert inverse.times(np.ones((1, 2))).tolist() == [[1, 2]]
    assert inverse.lengths(np.ones((1, 2))).tolist() == [3]
