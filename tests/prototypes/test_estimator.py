import doctest
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from protoreplay import PrototypeClassifier
from protoreplay.prototypes import estimator as module

X, Y = load_digits(return_X_y=True)
X = X / 16


def drawn(shots, seed):
    """So many samples of each digit, and all others."""
    random = np.random.default_rng(seed)
    taught = np.concatenate([random.permutation(np.flatnonzero(k == Y))[:n] for k, n in enumerate(shots)])
    return taught, np.setdiff1d(np.arange(len(Y)), taught)


@parametrize_with_checks(
    [PrototypeClassifier(), PrototypeClassifier(root=True, covariance="diagonal", singles=5, rank=3)]
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def test_the_example():
    assert doctest.testmod(module).attempted
    assert not doctest.testmod(module).failed


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("singles", [2, 50])
def test_learning_on_is_learning_at_once(root, singles):
    """In pieces of any classes; with few samples kept singly, the others are sums of full rank."""
    x, y, random = X[:500, 20:44], Y[:500], np.random.default_rng(0)
    whole = PrototypeClassifier(root, singles=singles).fit(x, y)
    parts = PrototypeClassifier(root, singles=singles)
    for portion in np.array_split(random.permutation(500), 7):
        parts.partial_fit(x[portion], y[portion])
    assert np.array_equal(parts.classes_, whole.classes_)
    assert (whole.sums_[0].others.weight > 0) == (singles == 2)
    asked = X[500:700, 20:44]
    assert np.allclose(parts.predict_proba(asked), whole.predict_proba(asked), atol=1e-5)
    assert np.allclose(parts.familiarity(asked), whole.familiarity(asked), rtol=1e-4, atol=1e-4)


def test_weights_are_repetitions():
    random = np.random.default_rng(0)
    x, y, weights = X[:120], Y[:120], random.integers(0, 4, 120)
    weighted = PrototypeClassifier().fit(x, y, sample_weight=weights)
    repeated = PrototypeClassifier().fit(np.repeat(x, weights, 0), np.repeat(y, weights))
    assert np.allclose(weighted.predict_proba(X[200:300]), repeated.predict_proba(X[200:300]), atol=1e-6)
    more = PrototypeClassifier().partial_fit(x, y, sample_weight=weights).partial_fit(x, y, sample_weight=weights)
    twice = PrototypeClassifier().fit(x, y, sample_weight=2 * weights)
    assert np.allclose(more.predict_proba(X[200:300]), twice.predict_proba(X[200:300]), atol=1e-6)


@pytest.mark.parametrize("weights", [[-1.0, 1, 1, 1], [0.0, 0, 0, 0]])
def test_weights_that_mean_nothing(weights):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        PrototypeClassifier().fit([[0.0], [1], [2], [3]], [0, 0, 1, 1], sample_weight=weights)


def test_a_class_of_no_weight_is_never_answered():
    model = PrototypeClassifier().fit([[0.0], [1], [5], [6], [9]], list("aabbz"), sample_weight=[1, 1, 1, 1, 0])
    assert model.classes_.tolist() == ["a", "b", "z"]
    assert model.predict([[9.0]]).tolist() == ["b"]
    assert model.predict_proba([[9.0]])[0, 2] == 0


def test_a_class_announced_but_not_seen_is_never_answered():
    model = PrototypeClassifier().partial_fit([[0.0], [1.0], [5.0]], ["a", "a", "b"], classes=["a", "b", "c"])
    assert model.predict_proba([[0.5]])[0, 2] == 0
    assert set(model.predict([[0.0], [9.0]])) == {"a", "b"}
    model.partial_fit([[20.0], [21.0]], ["c", "c"])
    assert model.predict([[20.5]]).tolist() == ["c"]


def test_probabilities():
    taught, asked, y_taught, y_asked = train_test_split(X, Y, train_size=200, random_state=0, stratify=Y)
    model = PrototypeClassifier().fit(taught, y_taught)
    probabilities = model.predict_proba(asked)
    assert probabilities.dtype == np.float64
    assert np.abs(probabilities.sum(1) - 1).max() < 1e-12
    assert np.array_equal(model.classes_[probabilities.argmax(1)], model.predict(asked))
    assert abs(probabilities.max(1).mean() - (model.predict(asked) == y_asked).mean()) < 0.05


def test_strangers_are_refused_and_few_of_the_known():
    """Eight digits are taught; of those about as many are refused as was allowed, of the two others far more."""
    known = Y < 8
    x, asked, y, _ = train_test_split(X[known], Y[known], train_size=320, random_state=0, stratify=Y[known])
    model = PrototypeClassifier(unknown=0.1).fit(x, y)
    of_known, of_others = ((model.predict(some) == -1).mean() for some in (asked, X[~known]))
    assert 0.05 < of_known < 0.15
    assert of_others > 0.4
    assert model.familiarity(asked).mean() > model.familiarity(X[~known]).mean()
    assert -1 not in model.set_params(unknown=0.0).predict(X)


@pytest.mark.parametrize(
    ("classes", "label", "expected"),
    [
        ((0, 1), None, [0, -1]),
        (("a", "b"), None, ["a", "unknown"]),
        (("a", "b"), "quite another thing", ["a", "quite another thing"]),
        ((0, 1), "none", [0, "none"]),
        ((0.0, 1.0), 7.5, [0.0, 7.5]),
    ],
)
def test_the_label_of_what_is_refused(classes, label, expected):
    x = np.r_[np.random.default_rng(0).normal(size=(10, 2)), np.random.default_rng(1).normal(size=(10, 2)) + 9]
    model = PrototypeClassifier(unknown=0.01, unknown_label=label).fit(x, np.repeat(classes, 10))
    assert model.predict([[0, 0], [90, -90]]).tolist() == expected


def test_the_label_of_what_is_refused_is_no_class():
    x = [[0.0], [1.0], [5.0]]
    with pytest.raises(ValueError, match="unknown_label is -1, which is one of the classes"):
        PrototypeClassifier(unknown=0.1).fit(x, [-1, -1, 1])
    model = PrototypeClassifier().fit(x, [-1, -1, 1])
    assert model.predict([[0.0]]).tolist() == [-1], "where nothing is refused it may be one"
    with pytest.raises(ValueError, match="unknown_label"):
        model.set_params(unknown=0.1).predict(x)
    model = PrototypeClassifier(unknown=0.1, unknown_label="z").fit(x, list("aab"))
    with pytest.raises(ValueError, match="unknown_label is 'z'"):
        model.partial_fit([[9.0]], ["z"])
    assert model.classes_.tolist() == ["a", "b"], "the model is as it was"


@pytest.mark.parametrize(
    "options", [{"covariance": "round"}, {"unknown": 1.0}, {"unknown": -0.1}, {"singles": 0}, {"rank": 0}]
)
def test_options_that_do_not_exist(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PrototypeClassifier(**options).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("change", [lambda x: 1e-9 * x, lambda x: 1e9 * x, lambda x: x + 1e7])
def test_neither_the_size_nor_the_place_of_features_matters(change):
    taught, asked = drawn([10] * 10, 0)
    expected = PrototypeClassifier().fit(X[taught], Y[taught]).predict_proba(X[asked])
    found = PrototypeClassifier().fit(change(X[taught]), Y[taught]).predict_proba(change(X[asked]))
    assert np.allclose(found, expected, atol=1e-4)


def test_little_memory_costs_little():
    taught, asked = drawn([100] * 10, 0)
    scores = [
        PrototypeClassifier(singles=singles, rank=rank).fit(X[taught], Y[taught]).score(X[asked], Y[asked])
        for singles, rank in ((50, None), (10, 10))
    ]
    assert scores[1] > scores[0] - 0.02


def test_in_cross_validation():
    x, y = load_iris(return_X_y=True)
    assert cross_val_score(PrototypeClassifier(), x, y).mean() > 0.95


@pytest.mark.parametrize(
    ("shots", "ahead"),
    [([5] * 10, -0.01), ([20] * 10, -0.01), ([4] * 5 + [20] * 5, 0.02)],
    ids=["5", "20", "unbalanced"],
)
def test_accuracy_beside_logistic_regression(shots, ahead):
    """On three draws; the other's penalty is chosen by cross-validation. Ours has nothing to be chosen by hand."""
    gains = []
    for seed in range(3):
        taught, asked = drawn(shots, seed)
        rival = LogisticRegressionCV(Cs=np.logspace(-2, 1, 4), cv=StratifiedKFold(3), max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rival.fit(X[taught], Y[taught])
        ours = PrototypeClassifier().fit(X[taught], Y[taught])
        gains.append(ours.score(X[asked], Y[asked]) - (rival.predict(X[asked]) == Y[asked]).mean())
    assert np.mean(gains) > ahead
