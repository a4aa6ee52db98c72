import math

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from protoreplay.prototypes.calibration import HeadCalibration
from protoreplay.prototypes.covariance import SharedCovariance
from protoreplay.prototypes.prototype_head import PrototypeHead, fit_head, scaled_softmax
from protoreplay.prototypes.sums import ClassSums
from protoreplay.prototypes.taught import BACKGROUND

WIDTH = 20
CHOSEN = HeadCalibration(0.8, 0.6, 12.0, 2.0, -30.0, 4.0, 50)


def drawn(counts, seed=0, width=WIDTH):
    """Features of each class, which vary in some directions more than in others."""
    random = np.random.default_rng(seed)
    spread = np.linspace(3, 0.3, width)
    return {f"{k}": random.normal(size=width) + spread * random.normal(size=(n, width)) for k, n in enumerate(counts)}


def sums(rows):
    keys = iter(range(100_000))
    return {name: ClassSums.of(some, [next(keys) for _ in some]) for name, some in rows.items()}


def brute_force(rows, kind, calibration):
    """Means, their centre, the inverse covariance with its ridge, and what few features add to the means' squares."""
    means = np.stack([some.mean(0) for some in rows.values()])
    apart = np.concatenate([some - some.mean(0) for some in rows.values()])
    covariance = apart.T @ apart / (len(apart) - len(rows))
    level = np.trace(covariance) / len(covariance)
    if kind != "full":
        covariance = np.diag(covariance.diagonal()) if kind == "diagonal" else level * np.eye(len(covariance))
    inverse = np.linalg.inv(covariance + calibration.ridge * level * np.eye(len(covariance)))
    return means, means.mean(0), inverse, calibration.noise / np.array([len(some) for some in rows.values()])


@pytest.mark.parametrize("kind", ["full", "diagonal", "identity"])
@pytest.mark.parametrize("counts", [[4, 3, 5], [30, 2, 9, 14]])  # fewer features than dimensions, and more
def test_scores_and_distances_are_those_of_brute_force(counts, kind):
    rows = drawn(counts)
    head = fit_head(sums(rows), CHOSEN, kind=kind)
    asked = 2 * np.random.default_rng(1).normal(size=(15, WIDTH))
    scores, lengths = head.scores(asked)
    means, centre, inverse, few = brute_force(rows, kind, CHOSEN)
    prototypes, seen = means - centre, asked - centre
    squares = np.einsum("kd,de,ke->k", prototypes, inverse, prototypes) - few
    expected = seen @ inverse @ prototypes.T - CHOSEN.shrink / 2 * squares
    differences = expected[:, 1:] - expected[:, :1]
    assert np.allclose(scores[:, 1:] - scores[:, :1], differences, rtol=1e-4, atol=1e-4 * np.abs(differences).max())
    apart = asked[:, None] - means
    distances = np.einsum("nkd,de,nke->nk", apart, inverse, apart) - few
    from_centre = np.einsum("nd,de,ne->n", seen, inverse, seen)
    largest = from_centre.max()
    assert np.allclose(lengths, from_centre, rtol=1e-4, atol=1e-5 * largest)
    assert np.allclose(head.distances(scores, lengths), distances, rtol=1e-4, atol=1e-5 * largest)
    expected = BACKGROUND * from_centre - distances.min(1)
    assert np.allclose(head.familiarity(scores, lengths), expected, rtol=1e-4, atol=1e-5 * largest)


def test_without_ridge_shrink_and_noise_it_is_linear_discriminant_analysis():
    rows = drawn([30, 30, 30])
    plain = CHOSEN._replace(ridge=1e-9, shrink=1.0, noise=0.0)
    head = fit_head(sums(rows), plain)
    x, y = np.concatenate(list(rows.values())), np.repeat(np.arange(3), 30)
    theirs = LinearDiscriminantAnalysis(priors=np.full(3, 1 / 3)).fit(x, y)
    asked = np.random.default_rng(1).normal(size=(40, WIDTH))
    ours, expected = head.scores(asked)[0].astype(float), theirs.decision_function(asked)
    ours, expected = ours - ours[:, :1], expected - expected[:, :1]
    # Theirs divides by the number of samples in some solvers and by the degrees of freedom in others: by a factor.
    factor = (ours * expected).sum() / np.square(ours).sum()
    assert factor == pytest.approx(1, abs=0.05)
    assert np.allclose(ours * factor, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def answers(head, asked):
    scores, lengths = head.scores(asked)
    return head.probabilities(scores), head.familiarity(scores, lengths), head.threshold(0.05)


@pytest.mark.parametrize("counts", [[5, 4, 6], [30, 12, 25]])
def test_turned_moved_or_scaled_features_give_the_same_answers(counts):
    rows, asked = drawn(counts), np.random.default_rng(1).normal(size=(15, WIDTH))
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(WIDTH, WIDTH)))[0]
    expected = answers(fit_head(sums(rows), near=None), asked)
    changes = (lambda x: x @ turn, lambda x: 1000 * x, lambda x: x / 1000, lambda x: 50 + x, lambda x: -3 * x @ turn)
    for change in changes:
        moved = fit_head(sums({name: change(some) for name, some in rows.items()}), near=None)
        for ours, theirs in zip(answers(moved, change(asked)), expected):
            assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_the_rounding_of_a_far_centre_does_not_matter():
    """The centre is kept in single precision: here, at ten millions, to a whole number. Without shrinking, nothing but
    the place of the centre depends on it."""
    rows, asked = drawn([6, 6, 6]), np.random.default_rng(1).normal(size=(9, WIDTH))
    calibration, far_off = CHOSEN._replace(shrink=1.0), 1e7 + 0.4
    near = fit_head(sums(rows), calibration)
    far = fit_head(sums({name: some + far_off for name, some in rows.items()}), calibration)
    ours, theirs = (head.probabilities(head.scores(x)[0]) for head, x in ((far, asked + far_off), (near, asked)))
    assert np.allclose(ours, theirs, atol=1e-5)


class CountedProducts(np.ndarray):
    """A matrix that keeps the shapes it was multiplied in."""

    shapes: list = []  # noqa: RUF012

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if ufunc is np.matmul:
            self.shapes.append(tuple(np.shape(one) for one in inputs))
        plain = [one.view(np.ndarray) if isinstance(one, CountedProducts) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)


def test_all_scores_come_from_one_product():
    """Of features with K + R rows: K classes, and R directions of the covariance."""
    rows = drawn([3, 3, 3], width=40)
    head = fit_head(sums(rows))
    directions = 9 - 3
    assert head.matrix.shape == (3 + directions, 40)
    CountedProducts.shapes.clear()
    counted = PrototypeHead(**(vars(head) | {"matrix": head.matrix.view(CountedProducts)}))
    asked = np.random.default_rng(0).normal(size=(7, 40))
    scores, _ = counted.scores(asked)
    assert CountedProducts.shapes == [((7, 40), (40, 3 + directions))]
    assert np.array_equal(scores, head.scores(asked)[0])


def test_a_known_covariance_and_calibration_give_the_same_head():
    classes = sums(drawn([5, 4, 6], width=40))
    fresh = fit_head(classes)
    grown = SharedCovariance.of_classes([classes["1"], classes["2"]], 40).plus_class(classes["0"])
    asked = np.random.default_rng(0).normal(size=(5, 40))
    for again in (fit_head(classes, covariance=grown), fit_head(classes, fresh.calibration, grown)):
        assert np.allclose(again.calibration, fresh.calibration)
        assert np.allclose(again.scores(asked)[0], fresh.scores(asked)[0], atol=1e-4)


def test_the_order_of_classes_does_not_matter():
    classes = sums(drawn([5, 4, 6]))
    backwards = fit_head(dict(reversed(classes.items())))
    assert backwards.names == ("0", "1", "2")
    assert np.array_equal(backwards.matrix, fit_head(classes).matrix)


def test_thresholds_follow_the_normal_distribution():
    head = fit_head(sums(drawn([4, 4])), CHOSEN)
    assert head.threshold(0.05) == pytest.approx(-30 - 1.645 * 4, abs=0.01)
    assert head.threshold(0.5) == -30
    assert head.threshold(0.0) == -math.inf


def test_softmax():
    scores = np.array([[0.0, np.log(3.0) * 2], [1e6, 0.0]], np.float32)
    assert np.allclose(scaled_softmax(scores, 2.0), [[0.25, 0.75], [1, 0]])
    assert scores[1, 0] == 1e6, "what is given stays"


def test_few_features_never_break_it():
    one = fit_head(sums({"a": np.ones((1, WIDTH))}))
    assert one.probabilities(one.scores(np.zeros((2, WIDTH)))[0]).tolist() == [[1.0], [1.0]]
    assert one.threshold(0.05) == -math.inf, "nothing is known of how features vary"
    same = fit_head(sums({"a": np.ones((3, WIDTH)), "b": np.zeros((1, WIDTH))}))
    assert same.scores(np.full((1, WIDTH), 0.9))[0].argmax() == 0
    assert np.isfinite(same.probabilities(same.scores(np.ones((1, WIDTH)))[0])).all()
    for near in (None, 0.12):
        equal = fit_head(sums({"a": np.ones((3, WIDTH)), "b": np.ones((2, WIDTH))}), near=near)
        assert np.isfinite(equal.probabilities(equal.scores(np.zeros((1, WIDTH)))[0])).all()


def test_ten_thousand_classes():
    random = np.random.default_rng(0)
    many = sums({f"{k:05}": random.normal(size=(1, 64)) for k in range(10_000)})
    head = fit_head(many)
    x = np.stack([many[name].mean for name in head.names[::500]])
    assert head.scores(x)[0].argmax(1).tolist() == list(range(0, 10_000, 500))
