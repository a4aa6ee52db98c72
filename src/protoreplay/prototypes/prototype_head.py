"""The classifier in closed form: Gaussian prototypes with one covariance that all classes share.

An image's score for a class is the logarithm of that class's density at the image, up to a number that is the same for
all classes. It is linear in the features, so that all answers come from one matrix product.
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from protoreplay.prototypes.calibration import HeadCalibration, calibrate
from protoreplay.prototypes.covariance import CovarianceKind, SharedCovariance
from protoreplay.prototypes.near_duplicates import NEAR
from protoreplay.prototypes.sums import ClassSums
from protoreplay.prototypes.taught import BACKGROUND, TaughtClasses
from protoreplay.prototypes.threads import one_blas_thread

Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PrototypeHead:
    """All that answering needs: K classes, D features.

    Attributes:
        names: K.
        centre: mean of the class means, D.
        matrix: K + R x D: the means from the centre, times the inverse covariance, and then the `bend` of that inverse.
        squares: K: of the means from the centre with themselves and the inverse, less what few features add to them.
        flat: D, of the inverse covariance.
        sign: of the inverse covariance's `bend`.
        calibration: of probabilities and of "I don't know".
    """

    names: tuple[str, ...]
    centre: Singles
    matrix: Singles
    squares: Singles
    flat: Singles
    sign: int
    calibration: HeadCalibration

    def scores(self, features: npt.NDArray[np.floating]) -> tuple[Singles, Singles]:
        """For features N x D: scores of the classes, N x K, and squared distances from the centre, N."""
        seen = (features - self.centre).astype(np.float32)
        classes = len(self.names)
        with one_blas_thread() if classes > 256 else contextlib.nullcontext():
            products = seen @ self.matrix.T
        bent = products[:, classes:]
        lengths = np.square(seen) @ self.flat + self.sign * np.einsum("nr,nr->n", bent, bent)
        scores = products[:, :classes]
        scores -= np.float32(self.calibration.shrink / 2) * self.squares
        return scores, lengths

    def distances(self, scores: Singles, lengths: Singles) -> Singles:
        """Squared distances from the classes, N x K, less what few features add to them."""
        return lengths[:, None] - 2 * scores + np.float32(1 - self.calibration.shrink) * self.squares

    def familiarity(self, scores: Singles, lengths: Singles) -> Singles:
        """N: minus the squared distance from the nearest class, plus the part of that from the centre forgiven."""
        return BACKGROUND * lengths - self.distances(scores, lengths).min(1)  # type: ignore[no-any-return]

    def probabilities(self, scores: Singles) -> Singles:
        """N x K, calibrated: of photos given 80 %, about 80 % are right."""
        return scaled_softmax(scores, self.calibration.temperature)

    def threshold(self, false_alarms: float) -> float:
        """The familiarity below which a photo is refused, so that this share of photos of known classes is."""
        if not false_alarms or not self.calibration.can_refuse:
            return -math.inf
        quantile = NormalDist().inv_cdf(false_alarms)
        return self.calibration.familiar_mean + quantile * self.calibration.familiar_std


def scaled_softmax(scores: Singles, scale: float) -> Singles:
    """Of `scores / scale` over the last axis."""
    # In one piece of memory: with thousands of classes, fresh memory takes longer than the arithmetic.
    scores = scores - scores.max(-1, keepdims=True)
    scores /= np.float32(scale)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def fit_head(
    classes: Mapping[str, ClassSums],
    calibration: HeadCalibration | None = None,
    covariance: SharedCovariance | None = None,
    near: float | None = NEAR,
    kind: CovarianceKind = "full",
) -> PrototypeHead:
    """The head of at least one class; in the order of names, so that it does not depend on the order of learning.

    Args:
        classes: by name.
        calibration: of this very content, where it is known already.
        covariance: that these classes share, where it is known already.
        near: squared distance up to which two features are almost the same; None where all count as different.
        kind: of covariance.
    """
    names = tuple(sorted(classes))
    taught = TaughtClasses.of([classes[name] for name in names], near, covariance)
    return head_of(names, taught, calibration or calibrate(taught, kind), kind)


def head_of(
    names: tuple[str, ...], taught: TaughtClasses, calibration: HeadCalibration, kind: CovarianceKind = "full"
) -> PrototypeHead:
    """The head of classes, in their order, with everything that is chosen."""
    single = np.float32
    inverse, directions = taught.inverse(calibration.ridge, kind), taught.directions(calibration.ridge, kind)
    squares = np.einsum("kd,kd->k", directions, taught.prototypes) - calibration.noise / taught.effective_counts
    return PrototypeHead(
        names,
        taught.centre.astype(single),
        np.concatenate([directions.astype(single, copy=False), inverse.bend.astype(single)]),
        squares.astype(single),
        inverse.flat.astype(single),
        inverse.sign,
        calibration,
    )
