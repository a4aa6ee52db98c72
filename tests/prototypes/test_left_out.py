"""What is left out in closed form, against fitting everything anew without it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.covariance import SharedCovariance
from protoreplay.prototypes.left_out import LeftOutGroups, left_out_products
from protoreplay.prototypes.sums import ClassSums


def weighted_scatter(rows, weights):
    apart = rows - weights @ rows / weights.sum()
    return (weights[:, None] * apart).T @ apart


def fitted(features, weights):
    """Means, scatter and degrees of freedom."""
    means = np.stack([own @ rows / own.sum() for rows, own in zip(features, weights)])
    scatter = sum(weighted_scatter(rows, own) for rows, own in zip(features, weights))
    return means, scatter, sum(own.sum() for own in weights) - len(features)


def refitted_products(features, weights, owner, places, scatter_ridge):
    """Products of the images at `places` of a class, and of all prototypes, after a fit without these images."""
    queries = features[owner][places]
    features = [np.delete(rows, places, 0) if k == owner else rows for k, rows in enumerate(features)]
    weights = [np.delete(own, places) if k == owner else own for k, own in enumerate(weights)]
    means, scatter, freedom = fitted(features, weights)
    inverse = np.linalg.inv((scatter + scatter_ridge * np.eye(len(scatter))) / max(freedom, 1))
    queries, prototypes = queries - means.mean(0), means - means.mean(0)
    squares = np.einsum("kd,de,ke->k", prototypes, inverse, prototypes)
    return queries @ inverse @ prototypes.T, squares, np.einsum("qd,de,qe->q", queries, inverse, queries)


def root_of_what_goes(features, weights, owner, places):
    """Rows whose products are the scatter of a class with the images at `places` less that without them."""
    rows, own = features[owner], weights[owner]
    less = weighted_scatter(rows, own) - weighted_scatter(np.delete(rows, places, 0), np.delete(own, places))
    values, vectors = np.linalg.eigh(less)
    return (np.sqrt(np.maximum(values, 0)) * vectors).T[-len(places) :]


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(4, 7), min_size=1, max_size=4),
    width=st.sampled_from([3, 8, 40]),
    size=st.integers(1, 3),
    ridge=st.sampled_from([0.05, 1.0, 30.0]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_left_out_is_as_if_it_had_not_been_learned(counts, width, size, ridge, weighted, seed):
    random = np.random.default_rng(seed)
    features = [random.normal(size=width) + random.normal(size=(count, width)) for count in counts]
    weights = [random.choice([0.5, 1.0, 3.0], n) if weighted else np.ones(n) for n in counts]
    members = [ClassSums.of(x, np.arange(len(x)), weights=own) for x, own in zip(features, weights)]
    covariance = SharedCovariance.of_classes(members, width)
    means, _, freedom = fitted(features, weights)
    prototypes = means - means.mean(0)
    owners = np.arange(len(counts))
    places = [random.permutation(count)[:size] for count in counts]
    without = [np.delete(weights[k], places[k]) @ np.delete(features[k], places[k], 0) for k in owners]
    groups = LeftOutGroups(
        np.stack([features[k][places[k]] for k in owners]) - means.mean(0),
        np.stack([means[k] - without[k] / np.delete(weights[k], places[k]).sum() for k in owners]),
        np.stack([np.resize(root_of_what_goes(features, weights, k, places[k]), (size, width)) for k in owners]),
        np.array([weights[k][places[k]].sum() for k in owners]),
        owners,
    )
    found = left_out_products(groups, prototypes, covariance.inverse(ridge), freedom)
    for k in owners:
        cross, squares, lengths = refitted_products(features, weights, k, places[k], ridge * max(freedom, 1))
        for ours, theirs in ((found.cross[k], cross), (found.squares[k], squares), (found.lengths[k], lengths)):
            assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-8 * max(np.abs(lengths).max(), 1))


def test_leaving_out_in_one_dimension_by_hand():
    """Class a has 0 and 2, class b has 4 and 6 and 8; the 2 is left out.

    Then the means are 0 and 6, their centre 3, the scatter 8, its ridge 1 * 3, the degrees of freedom 2: a variance of
    11 / 2.
    """
    members = [ClassSums.of(np.array([[0.0], [2.0]]), [0, 1]), ClassSums.of(np.array([[4.0], [6.0], [8.0]]), [2, 3, 4])]
    covariance = SharedCovariance.of_classes(members, 1)
    groups = LeftOutGroups(
        queries=np.array([[[2 - 3.5]]]),
        pulls=np.array([[1.0]]),
        added=np.array([[[np.sqrt(2)]]]),
        removed=np.ones(1),
        owners=np.zeros(1, int),
    )
    found = left_out_products(groups, np.array([[-2.5], [2.5]]), covariance.inverse(1.0), covariance.freedom)
    assert np.allclose(found.cross, np.array([[[3, -3]]]) * 2 / 11)
    assert np.allclose(found.squares, np.array([[9, 9]]) * 2 / 11)
    assert np.allclose(found.lengths, np.array([[1]]) * 2 / 11)


@pytest.mark.parametrize("freedom", [0.0, 0.5, 1.0])
def test_few_degrees_of_freedom_count_as_one(freedom):
    groups = LeftOutGroups(np.ones((1, 1, 2)), np.zeros((1, 2)), np.zeros((1, 0, 2)), np.ones(1), np.zeros(1, int))
    covariance = SharedCovariance(np.zeros((0, 2)), np.zeros((0, 0)), 0.0, freedom)
    found = left_out_products(groups, np.ones((1, 2)), covariance.inverse(0.5), freedom)
    assert found.lengths.tolist() == [[4.0]]
