"""The classifier on feature vectors, in the manner of scikit-learn."""

import hashlib
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from protoreplay.prototypes.covariance import CovarianceKind
from protoreplay.prototypes.prototype_head import PrototypeHead
from protoreplay.prototypes.scaled_head import ScaledHead
from protoreplay.prototypes.sums import ClassSums, Floats, Keys, rooted


class PrototypeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian prototypes with one covariance that all classes share, and calibrated probabilities.

    It learns on with `partial_fit`, new classes included. In whatever order samples come, the result is the same, but
    for rounding. A sample with a weight of 2 counts as if it were there twice. What the samples of the classes say when
    each of them is left out chooses the ridge, the temperature of the probabilities and what is too far from all
    classes. The ridge is the same in every direction, so features should be of similar size: if they are not, put a
    `StandardScaler` first.

    Examples:
        >>> model = PrototypeClassifier().fit([[0, 0], [0, 1], [4, 4], [4, 5]], ["low", "low", "high", "high"])
        >>> model.partial_fit([[9, 0], [9, 1]], ["right", "right"]).predict([[8, 0], [1, 1]]).tolist()
        ['right', 'low']
        >>> model.set_params(unknown=0.01).predict([[8, 0], [-90, 70]]).tolist()
        ['right', 'unknown']

    Args:
        root: take signed square roots of unit length first, as is best for features of networks.
        covariance: "full", "diagonal" (variances alone) or "identity" (one variance).
        unknown: the share of samples of known classes that may be refused so that others are; with 0 none ever is.
        unknown_label: what `predict` answers to refused samples; if None, -1 where classes are numbers, else "unknown".
        singles: how many samples of a class are kept for leaving out, once it has more than `singles + rank`.
        rank: directions in which the others are kept; if None all of them, so that nothing is lost.
    """

    classes_: npt.NDArray[Any]
    sums_: dict[Any, ClassSums]
    centre_: Floats
    scale_: float
    head_: PrototypeHead

    def __init__(
        self,
        root: bool = False,
        covariance: CovarianceKind = "full",
        unknown: float = 0.0,
        unknown_label: Any = None,
        singles: int = 50,
        rank: int | None = None,
    ) -> None:
        self.root = root
        self.covariance = covariance
        self.unknown = unknown
        self.unknown_label = unknown_label
        self.singles = singles
        self.rank = rank

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:  # noqa: N803
        """Learn samples, N x D, with their classes, N, and nothing else; those of weight 0 are ignored."""
        return self._learn(X, y, None, sample_weight, reset=True)

    def partial_fit(
        self,
        X: npt.ArrayLike,  # noqa: N803
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn more samples. `classes` may be given as elsewhere, but need not: new ones may come any time."""
        return self._learn(X, y, classes, sample_weight, reset=not hasattr(self, "sums_"))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:  # noqa: N803
        """The likeliest classes, N; `unknown_label` for what looks like none of them, if `unknown` is above 0."""
        scores, lengths = self._scores(X)
        answers: npt.NDArray[Any] = np.asarray(self._known())[scores.argmax(1)]
        if not self.unknown:
            return answers
        label = self._label_of_unknown(self.classes_)
        if _of_numbers(label) != _of_numbers(answers):
            label, answers = label.astype(object), answers.astype(object)
        refused = self.head_.familiarity(scores, lengths) < self.head_.threshold(self.unknown)
        return np.where(refused, label, answers)

    def predict_proba(self, X: npt.ArrayLike) -> Floats:  # noqa: N803
        """Probabilities of the classes, N x K, in the order of `classes_`; 0 for those of which nothing was seen."""
        # In double precision, because rows must add up to 1 as exactly as users test it.
        scores = self._scores(X)[0].astype(np.float64) / self.head_.calibration.temperature
        exponents = np.exp(scores - scores.max(1, keepdims=True))
        result = np.zeros((len(scores), len(self.classes_)))
        result[:, np.isin(self.classes_, self._known())] = exponents / exponents.sum(1, keepdims=True)
        return result

    def familiarity(self, X: npt.ArrayLike) -> Floats:  # noqa: N803
        """How much samples look like any known class, N: higher is more familiar."""
        return self.head_.familiarity(*self._scores(X)).astype(np.float64)

    def _learn(
        self,
        X: npt.ArrayLike,  # noqa: N803
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None,
        sample_weight: npt.ArrayLike | None,
        reset: bool,
    ) -> Self:
        self._check_options()
        vectors, labels = validate_data(self, X, y, reset=reset, dtype=np.float64)
        check_classification_targets(labels)
        weights = _check_sample_weight(sample_weight, vectors, dtype=np.float64)
        if (weights < 0).any() or not weights.any():
            raise ValueError("sample_weight must not be below zero, and not zero for every sample.")
        announced = [] if reset else [self.classes_]
        announced += [] if classes is None else [np.asarray(classes)]
        whole = unique_labels(labels, *announced)
        if self.unknown:
            self._label_of_unknown(whole)
        self.classes_ = whole
        sums, some = {} if reset else dict(self.sums_), weights > 0
        vectors, labels, weights = vectors[some], labels[some], weights[some]
        rows = rooted(vectors) if self.root else vectors
        for label in np.unique(labels):
            own = labels == label
            added = ClassSums.of(rows[own], _keys_of(rows[own]), weights=weights[own])
            both = sums[label] + added if label in sums else added
            sums[label] = both.reduced(self.singles, rows.shape[1] if self.rank is None else self.rank)
        self.sums_ = sums
        self._fit_head()
        return self

    def _check_options(self) -> None:
        if self.covariance not in get_args(CovarianceKind):
            raise ValueError(f"covariance is one of {get_args(CovarianceKind)}, not {self.covariance!r}.")
        if not 0 <= self.unknown < 1:
            raise ValueError(f"unknown is a share from 0 to 1, such as 0.05, not {self.unknown!r}.")
        if self.singles < 1 or (self.rank is not None and self.rank < 1):
            raise ValueError(f"singles and rank are at least 1, not {self.singles!r} and {self.rank!r}.")

    def _fit_head(self) -> None:
        members = [self.sums_[label] for label in self._known()]
        self.centre_, self.scale_, self.head_ = ScaledHead.of(list(map(str, self._known())), members, self.covariance)

    def _known(self) -> list[Any]:
        """The classes of which samples were seen, in the order of `classes_`."""
        return [label for label in self.classes_ if label in self.sums_]

    def _label_of_unknown(self, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        label = self.unknown_label
        if label is None:
            label = -1 if _of_numbers(classes) else "unknown"
        if label in classes.tolist():
            raise ValueError(f"unknown_label is {label!r}, which is one of the classes: choose another unknown_label.")
        return np.asarray(label)

    def _scores(self, X: npt.ArrayLike) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:  # noqa: N803
        check_is_fitted(self)
        vectors = validate_data(self, X, reset=False, dtype=np.float64)
        rows = rooted(vectors) if self.root else vectors
        return self.head_.scores((rows - self.centre_) * self.scale_)


def _keys_of(rows: Floats) -> Keys:
    """Of each row, N: the same for rows that are the same."""
    positive = np.ascontiguousarray(rows) + 0.0  # no row has a negative zero
    return np.array([int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "big") for row in positive], np.uint64)


def _of_numbers(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf"
