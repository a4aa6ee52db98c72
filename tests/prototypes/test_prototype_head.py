import math

import numpy as np
import pytest

from protoreplay.prototypes import prototype_head as head
from protoreplay.prototypes.sums import ClassSums

D = 40


def gaussians(random, means, each, spread):
    return {f"class {k}": mean + spread * random.normal(size=(each, D)) for k, mean in enumerate(means)}


def sums(rows):
    keys = iter(range(10_000))
    return {name: ClassSums.of(some, [next(keys) for _ in some]) for name, some in rows.items()}


@pytest.fixture
def problem():
    """Classes whose dimensions vary differently: the first half much more than the second."""
    random = np.random.default_rng(0)
    means = random.normal(size=(5, D)) * 0.6
    spread = np.r_[np.full(D // 2, 2.0), np.full(D // 2, 0.5)]
    return random, means, spread


def test_distances_are_the_weighted_ones(problem):
    random, means, spread = problem
    taught = sums(gaussians(random, means, 12, spread))
    fitted = head.fit_head(taught)
    x = random.normal(size=(6, D))
    nearness, from_centre = fitted.scores(x)
    members = [taught[name] for name in fitted.names]
    variance = sum(m.scatter for m in members) / (60 - 5)
    weight = 1 / (variance + variance.mean())
    expected = np.array([[((row - m.mean) ** 2 * weight).sum() for m in members] for row in x])
    assert np.allclose(from_centre[:, None] - nearness, expected, rtol=1e-4)
    centre = np.mean([m.mean for m in members], 0)
    scores = head.familiarity_scores(nearness, from_centre)
    assert np.allclose(scores, 0.3 * ((x - centre) ** 2 * weight).sum(1) - expected.min(1), rtol=1e-3, atol=1e-3)


def test_left_out_is_as_if_it_had_not_been_learned(problem):
    random, means, spread = problem
    rows = gaussians(random, means, 6, spread)
    taught = sums(rows)
    names = sorted(taught)
    members = [taught[name] for name in names]
    x, rest = rows["class 2"][0], rows["class 2"][1:]
    centres = np.stack([m.mean for m in members])
    weight = head.dimension_weights(*head.shared_scatter(members))
    distances, from_centre = head.left_out_distances(members, centres, weight, x[None], np.array([2]))
    without = sums(rows | {"class 2": rest})
    fresh = [without[name] for name in names]
    weight = head.dimension_weights(*head.shared_scatter(fresh))
    expected = np.array([((x - m.mean) ** 2 * weight).sum() for m in fresh])
    expected[2] *= 35 / 36  # a mean of six is a better one than of five
    assert np.allclose(distances[0], expected)
    assert np.allclose(from_centre, ((x - np.mean([m.mean for m in fresh], 0)) ** 2 * weight).sum())


def test_refusals_and_probabilities_hold_on_new_photos(problem):
    """Over many draws the chosen share of new photos is refused, and what is given 80 % is right in 80 %."""
    random, means, spread = problem
    refused, gap = [], []
    for _ in range(20):
        fitted = head.fit_head(sums(gaussians(random, means, 10, spread)))
        for k, rows in enumerate(gaussians(random, means, 40, spread).values()):
            nearness, from_centre = fitted.scores(rows)
            refused.append(head.familiarity_scores(nearness, from_centre) < fitted.threshold(0.1))
            probabilities = fitted.probabilities(nearness)
            gap.append(probabilities.max(1) - (probabilities.argmax(1) == k))
    assert 0.06 < np.mean(refused) < 0.14
    assert abs(np.mean(gap)) < 0.04
    far = fitted.scores(means[:1] + 40)
    assert head.familiarity_scores(*far) < fitted.threshold(0.01)


def test_few_photos_never_break_it():
    one = head.fit_head(sums({"a": np.ones((1, D))}))
    assert one.probabilities(one.scores(np.zeros((2, D)))[0]).tolist() == [[1.0], [1.0]]
    assert one.threshold(0.05) == -math.inf, "nothing is known of how photos vary"
    same = head.fit_head(sums({"a": np.ones((3, D)), "b": np.zeros((1, D))}))
    assert same.scores(np.full((1, D), 0.9))[0].argmax() == 0
    assert np.isfinite(same.probabilities(same.scores(np.ones((1, D)))[0])).all()
    assert head.fit_head(sums({"a": np.ones((2, D)), "b": np.zeros((2, D))})).threshold(0) == -math.inf


def test_ten_thousand_classes():
    random = np.random.default_rng(0)
    many = sums({f"{k:05}": random.normal(size=(1, 8)) for k in range(10_000)})
    fitted = head.fit_head(many)
    x = np.stack([many[name].mean for name in fitted.names[::500]])
    assert fitted.scores(x)[0].argmax(1).tolist() == list(range(0, 10_000, 500))
