"""The classifier on feature vectors, in the manner of scikit-learn."""

import hashlib
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from protoreplay.prototypes.prototype_head import PrototypeHead, fit_head
from protoreplay.prototypes.sums import ClassSums, rooted

Vectors = npt.NDArray[np.float64]


class PrototypeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Nearest prototype, weighted by variances that all classes share, with calibrated probabilities.

    Learns on with `partial_fit`, new classes included; in whatever order samples come, the result is the same.

    Examples:
        >>> import numpy as np
        >>> model = PrototypeClassifier().fit([[0, 0], [0, 1], [4, 4], [4, 5]], ["low", "low", "high", "high"])
        >>> model.partial_fit([[9, 0], [9, 1]], ["right", "right"]).predict([[8, 0], [1, 1]]).tolist()
        ['right', 'low']

    Args:
        root: take signed square roots of unit length first, as is best for features of networks.
    """

    classes_: npt.NDArray[Any]
    sums_: dict[Any, ClassSums]
    head_: PrototypeHead

    def __init__(self, root: bool = False) -> None:
        self.root = root

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:  # noqa: N803
        """Learn samples, N x D, with their classes, N, and nothing else."""
        return self._learn(X, y, None, reset=True)

    def partial_fit(self, X: npt.ArrayLike, y: npt.ArrayLike, classes: Any = None) -> Self:  # noqa: N803
        """Learn more samples. `classes`, N, may be given as elsewhere, but need not: new ones may come any time."""
        return self._learn(X, y, classes, reset=not hasattr(self, "sums_"))

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:  # noqa: N803
        """Probabilities, N x K, in the order of `classes_`."""
        nearness = self._nearness(X)
        known = [list(self.classes_).index(name) for name in self._known()]
        result = np.zeros((len(nearness), len(self.classes_)))
        # In double precision, because rows must add up to 1 as exactly as users test it.
        scores = nearness.astype(np.float64) / (2 * self.head_.calibration.temperature)
        exponents = np.exp(scores - scores.max(1, keepdims=True))
        result[:, known] = exponents / exponents.sum(1, keepdims=True)
        return result

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:  # noqa: N803
        """The classes, N."""
        nearest = self._nearness(X).argmax(1)
        answers: npt.NDArray[Any] = np.asarray(self._known())[nearest]
        return answers

    def _learn(self, X: npt.ArrayLike, y: npt.ArrayLike, classes: Any, reset: bool) -> Self:  # noqa: N803
        vectors, labels = validate_data(self, X, y, reset=reset, dtype=np.float64)
        check_classification_targets(labels)
        known = [] if reset else [self.classes_]
        given = [] if classes is None else [np.asarray(classes)]
        self.classes_ = unique_labels(labels, *known, *given)
        sums = {} if reset else dict(self.sums_)
        rows = rooted(vectors) if self.root else vectors
        for label in np.unique(labels):
            own = rows[labels == label]
            added = ClassSums.of(own, [_key(row) for row in own])
            sums[label] = sums[label] + added if label in sums else added
        self.sums_ = sums
        self.head_ = fit_head({f"{place:09}": sums[label] for place, label in enumerate(self._known())})
        return self

    def _known(self) -> list[Any]:
        """The classes of which samples were seen, in the order of `classes_`."""
        return [label for label in self.classes_ if label in self.sums_]

    def _nearness(self, X: npt.ArrayLike) -> npt.NDArray[np.float32]:  # noqa: N803
        check_is_fitted(self)
        vectors = validate_data(self, X, reset=False, dtype=np.float64)
        return self.head_.scores(rooted(vectors) if self.root else vectors)[0]


def _key(row: Vectors) -> int:
    return int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "big")
