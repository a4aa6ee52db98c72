"""What a linear head becomes on endless replay of Gaussian prototypes: a formula, so that nothing has to be drawn.

Samples of N(mean of the class, P), one covariance P for all classes, make the expected cross-entropy smallest for one
linear head alone: the logarithms of the classes' densities, less what they have in common.
"""

from typing import NamedTuple

import numpy as np

from protoreplay.prototypes.covariance import CovarianceKind, RidgeInverse, SharedCovariance
from protoreplay.prototypes.sums import Floats, Rows


class ClosedFormHead(NamedTuple):
    """The score of prototype k for x is `(x - centre) @ directions[k] - offsets[k]`.

    Attributes:
        centre: the mean of all prototypes, D.
        directions: K x D.
        offsets: K.
    """

    centre: Floats
    directions: Rows
    offsets: Floats

    @classmethod
    def of(cls, means: Floats, inverse: RidgeInverse, shrink: float = 1.0) -> "ClosedFormHead":
        """From the means of prototypes, K x D, and the inverse of the covariance they share.

        Args:
            means: K x D.
            inverse: of the covariance with its ridge.
            shrink: how far from the centre prototypes are taken to be, up to a factor of all scores.
        """
        centre = means.mean(0)
        apart = means - centre
        directions = inverse.times(apart)
        return cls(centre, directions, shrink / 2 * np.einsum("kd,kd->k", directions, apart))


def symmetric_whitening(covariance: SharedCovariance, ridge: float, kind: CovarianceKind) -> Floats:
    """The symmetric D x D matrix behind which the covariance with its ridge is the identity."""
    if kind != "full":
        return np.diag(np.sqrt(covariance.inverse(ridge, kind).flat))
    values, vectors, _ = covariance.spectrum
    return (vectors.T / np.sqrt(values + ridge)) @ vectors
