"""Answers from prototypes: distances weighted by variances that all classes share, calibrated by leaving photos out.

Prototypes are compared in one metric, each dimension weighted by the inverse of its variance within classes, which is
shrunk towards the mean over dimensions: per-class variances of ten photos are too uncertain to answer with.
"""

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import threadpoolctl

from protoreplay.prototypes.sums import ClassSums, Floats

Singles = npt.NDArray[np.float32]

SHRINKAGE = 1.0
"""Mean variance of all dimensions that is added to each; chosen on CIFAR-10's training images (docs/photos.md)."""
BACKGROUND = 0.3
"""Share of the distance from the centre of all classes that a photo is forgiven: what is odd in every respect is far
from all classes, and no news; chosen like `SHRINKAGE`."""
TYPICAL_RATIO = 26.0
"""Of a photo's distance from its class to the best temperature, as found with 2 to 50 photos a class."""
PRIOR_WEIGHT = 10.0
"""How strongly the temperature is drawn to the typical one where few photos speak for another."""
EXACT_LIMIT = 300
"""Degrees of freedom from which one photo no longer changes the shared variances."""


class HeadCalibration(NamedTuple):
    """What leaving out one taught photo at a time says.

    Attributes:
        temperature: divides the log-likelihoods; 1 would be independent dimensions.
        typical: squared distance of a photo from its own class, the median.
        familiar_mean: how familiar photos of the classes look, on average.
        familiar_std: and how far this varies; 0 where fewer than three photos could be left out.
    """

    temperature: float
    typical: float
    familiar_mean: float
    familiar_std: float


@dataclass(frozen=True)
class PrototypeHead:
    """All that answering needs: K classes, D features.

    Attributes:
        names: K.
        centre: mean of the class means, D.
        weight: of each dimension, D.
        directions: K x D: the means, seen from the centre, weighted.
        offsets: K: weighted squared distances of the means from the centre.
        calibration: of probabilities and of "I don't know".
    """

    names: tuple[str, ...]
    centre: Singles
    weight: Singles
    directions: Singles
    offsets: Singles
    calibration: HeadCalibration

    def scores(self, features: npt.NDArray[np.floating]) -> tuple[Singles, Singles]:
        """For features N x D: twice the log-likelihoods up to a number for each photo, N x K, and distances from the
        centre, N. A squared distance from a class is the second minus the first."""
        seen = (features - self.centre).astype(np.float32)
        with _one_thread() if len(self.names) > 256 else contextlib.nullcontext():
            nearness = seen @ self.directions.T
        nearness *= 2
        nearness -= self.offsets
        return nearness, np.square(seen) @ self.weight

    def probabilities(self, nearness: Singles) -> Singles:
        """N x K, calibrated: of photos given 80 %, about 80 % are right."""
        return scaled_softmax(nearness, 2 * self.calibration.temperature)

    def threshold(self, false_alarms: float) -> float:
        """The familiarity below which a photo is refused, so that this share of photos of known classes is."""
        if not false_alarms or not self.calibration.familiar_std:
            return -math.inf
        quantile = NormalDist().inv_cdf(false_alarms)
        return self.calibration.familiar_mean + quantile * self.calibration.familiar_std


def _one_thread() -> contextlib.AbstractContextManager[object]:
    """For large products only: all cores are busy embedding, and more threads would wait for each other."""
    manager: contextlib.AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return manager


@functools.cache
def _libraries() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


def familiarity_scores(nearness: Singles | Floats, from_centre: Singles | Floats) -> npt.NDArray[np.floating]:
    """N: minus the squared distance from the nearest class, plus the part of that from the centre that is forgiven."""
    return nearness.max(1) - (1 - BACKGROUND) * from_centre  # type: ignore[no-any-return]


def scaled_softmax(scores: Singles, scale: float) -> Singles:
    """Of `scores / scale` over the last axis."""
    # In one piece of memory: with thousands of classes, fresh memory takes longer than the arithmetic.
    scores = scores - scores.max(-1, keepdims=True)
    scores /= np.float32(scale)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def fit_head(classes: Mapping[str, ClassSums], calibration: HeadCalibration | None = None) -> PrototypeHead:
    """The head of at least one class; in the order of names, so that it does not depend on the order of learning."""
    names = tuple(sorted(classes))
    members = [classes[name] for name in names]
    means = np.stack([member.mean for member in members])
    weight = dimension_weights(*shared_scatter(members))
    centre = means.mean(0)
    if calibration is None:
        calibration = leave_one_out_calibration(members, means, weight)
    seen = means - centre
    directions = seen * weight
    offsets = (seen * directions).sum(1)
    single = np.float32
    return PrototypeHead(
        names,
        centre.astype(single),
        weight.astype(single),
        directions.astype(single),
        offsets.astype(single),
        calibration,
    )


def shared_scatter(members: Sequence[ClassSums]) -> tuple[Floats, int]:
    """Sum of scatters, D, and its degrees of freedom."""
    scatter = np.zeros_like(members[0].total)
    for member in members:
        scatter += member.scatter
    return scatter, sum(member.count for member in members) - len(members)


def dimension_weights(scatter: Floats, freedom: int | Floats) -> Floats:
    """Inverse shrunk variances of scatters ... x D; all alike where nothing has varied yet."""
    variance = scatter / np.maximum(freedom, 1)
    level = variance.mean(-1, keepdims=True)
    # Photos that do not differ at all, or one photo a class: any level does, all dimensions count the same.
    level = np.where(level > 1e-12, level, 1 / scatter.shape[-1])
    return 1 / (variance + SHRINKAGE * level)  # type: ignore[no-any-return]


def leave_one_out_calibration(members: Sequence[ClassSums], means: Floats, weight: Floats) -> HeadCalibration:
    """From the sampled photos of classes of at least two, each left out of its class and of the shared variances."""
    owners = np.repeat(np.arange(len(members)), [len(m.sample) if m.count > 1 else 0 for m in members])
    if not len(owners):
        return HeadCalibration(len(weight) / TYPICAL_RATIO, float(len(weight)), 0.0, 0.0)
    samples = np.concatenate([m.sample for m in members if m.count > 1]).astype(np.float64)
    distances, from_centre = left_out_distances(members, means, weight, samples, owners)
    own = distances[np.arange(len(owners)), owners]
    typical = max(float(np.median(own)), 1e-9)
    temperature = _temperature(distances, owners, typical / TYPICAL_RATIO)
    scores = familiarity_scores(-distances + from_centre[:, None], from_centre)
    spread = float(scores.std(ddof=1)) if len(scores) > 2 else 0.0
    return HeadCalibration(temperature, typical, float(scores.mean()), spread)


def left_out_distances(
    members: Sequence[ClassSums], means: Floats, weight: Floats, samples: Floats, owners: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Squared distances of photos from all means, N x K, and from the centre, N, as if they had not been learned.

    Args:
        members: the classes, K.
        means: K x D.
        weight: of each dimension, D.
        samples: features of learned photos, N x D.
        owners: N: the index of the class of each, which has at least two photos.
    """
    counts = np.array([member.count for member in members], np.float64)[owners, None]
    scatter, freedom = shared_scatter(members)
    centre = means.mean(0)
    seen, offset = samples - centre, samples - means[owners]
    if 1 < freedom < EXACT_LIMIT:
        weight = dimension_weights(np.maximum(scatter - counts / (counts - 1) * np.square(offset), 0), freedom - 1)
    around = means - centre
    weighted = seen * weight
    distances = (weighted * seen).sum(1, keepdims=True) - 2 * weighted @ around.T
    distances += np.broadcast_to(weight, samples.shape) @ np.square(around).T
    # Without a photo, the mean of its class lies further from it by n / (n - 1); but that mean is of one photo less
    # than a new photo will be compared with, and the expected distance from it larger by the second factor.
    further = (counts[:, 0] / (counts[:, 0] - 1)) ** 2 * (1 - counts[:, 0] ** -2)
    distances[np.arange(len(samples)), owners] = (np.square(offset) * weight).sum(1) * further
    from_centre = (np.square(seen + offset / ((counts - 1) * len(means))) * weight).sum(1)
    return np.maximum(distances, 0), from_centre


def _temperature(distances: Floats, owners: npt.NDArray[np.int64], typical: float) -> float:
    """The temperature under which the photos' own classes are the likeliest, drawn to the typical one.

    The penalised loss has one minimum in the logarithm of the temperature on the range tried, found by golden section.
    Written out, although `scipy.optimize.minimize_scalar` has it: importing `scipy.optimize` 1.17 took 0.43 s (best of
    five, after NumPy's own 0.25 s), and every command that answers one photo would wait for it.
    """
    rows = np.arange(len(owners))

    def loss(log: float) -> float:
        scores = -0.5 * distances / (typical * math.exp(log))
        top = scores.max(1)
        normaliser = top + np.log(np.exp(scores - top[:, None]).sum(1))
        return float((normaliser - scores[rows, owners]).sum()) + PRIOR_WEIGHT * log**2

    low, high = -3.0, 3.0
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-6:
        one, two = high - golden * (high - low), low + golden * (high - low)
        if loss(one) < loss(two):
            high = two
        else:
            low = one
    return typical * math.exp((low + high) / 2)
