import numpy as np
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from protoreplay import PrototypeClassifier


@parametrize_with_checks([PrototypeClassifier(), PrototypeClassifier(root=True)])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def test_learning_on_is_learning_at_once():
    x, y = load_digits(return_X_y=True)
    whole = PrototypeClassifier(root=True).fit(x[:500], y[:500])
    parts = PrototypeClassifier(root=True)
    for digit in np.random.default_rng(0).permutation(10):
        own = y[:500] == digit
        parts.partial_fit(x[:500][own], y[:500][own])
    assert np.array_equal(parts.classes_, whole.classes_)
    assert np.allclose(parts.predict_proba(x[500:700]), whole.predict_proba(x[500:700]), atol=1e-5)
    assert whole.score(x[500:], y[500:]) > 0.75


def test_probabilities_are_calibrated():
    x, y = load_digits(return_X_y=True)
    taught, asked, y_taught, y_asked = train_test_split(x, y, train_size=200, random_state=0, stratify=y)
    model = PrototypeClassifier(root=True).fit(taught, y_taught)
    probabilities = model.predict_proba(asked)
    right = model.predict(asked) == y_asked
    assert abs(probabilities.max(1).mean() - right.mean()) < 0.05


def test_in_cross_validation():
    x, y = load_iris(return_X_y=True)
    assert cross_val_score(PrototypeClassifier(), x, y).mean() > 0.88


def test_a_class_announced_but_not_seen_is_never_answered():
    model = PrototypeClassifier().partial_fit([[0.0], [1.0], [5.0]], ["a", "a", "b"], classes=["a", "b", "z"])
    assert model.predict_proba([[0.5]])[0, 2] == 0
    assert set(model.predict([[0.0], [9.0]])) == {"a", "b"}
