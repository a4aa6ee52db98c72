"""What leaving out the learned features says: ridge and shrink, how sure to be, and when to say "I don't know"."""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protoreplay.prototypes.covariance import CovarianceKind, RidgeInverse
from protoreplay.prototypes.sums import Floats
from protoreplay.prototypes.taught import LeftOutScores, TaughtClasses
from protoreplay.prototypes.threads import one_blas_thread

SHRINK, SHRINKS = 0.5, (0.3, 0.5, 0.7, 1.0)
"""The usual one, and what is tried. These and the numbers below were chosen on training images of other
sets: docs/photos.md."""
RIDGE_STEPS = (1 / 9, 1 / 3, 1.0, 3.0, 9.0)
"""Ridges that are tried, times the usual one."""
RIDGE_WEIGHT = 1.0
"""How strongly the ridge is drawn to the usual one: nats at ten times as much or as little."""
TYPICAL_TEMPERATURE = 0.25
"""The usual temperature, in distances of an image from its class."""
SHRINK_WEIGHT = 10.0
"""How strongly the shrink is drawn to the usual one: nats at a difference of 1."""
PRIOR_WEIGHT = 5.0
"""How strongly the temperature is drawn to the typical one where few images speak for another."""
FEWEST_GROUPS = 5
"""Images that differ from which "I don't know" can be said: fewer would refuse nothing or everything."""
MOST_CHOSEN = 1200
"""Classes, and directions of the covariance, up to which ridge and shrink are chosen: with more it takes seconds, and
the usual ones are as good."""


class HeadCalibration(NamedTuple):
    """What leaving out learned features says.

    Attributes:
        ridge: mean eigenvalues of the shared covariance that are added to it in every direction.
        shrink: how far from the centre of all prototypes one is taken to be.
        noise: squared distance of an image from the true mean of its class, on average.
        temperature: divides the scores.
        familiar_mean: how familiar images of the classes look, on average.
        familiar_std: and how far this varies.
        groups: how many could be left out: images that differ, of classes that have others.
    """

    ridge: float
    shrink: float
    noise: float
    temperature: float
    familiar_mean: float
    familiar_std: float
    groups: int

    @property
    def can_refuse(self) -> bool:
        """Whether enough could be left out to say what is strange."""
        return self.groups >= FEWEST_GROUPS

    def refusal_range(self, asked: float) -> tuple[float, float]:
        """Where the share of refused images of known classes lies in 19 of 20 cases, if `asked` is asked for."""
        normal = NormalDist()
        quantile = normal.inv_cdf(asked)
        error = 1.96 * math.sqrt((1 + quantile**2 / 2) / self.groups)
        return normal.cdf(quantile - error), normal.cdf(quantile + error)


def usual_ridge(features: float) -> float:
    """The ridge that was best on other data with so many learned features in all."""
    return min(max(4000 / max(features, 1.0), 1.0), 120.0)


def calibrate(taught: TaughtClasses, kind: CovarianceKind = "full", usual: float | None = None) -> HeadCalibration:
    """Everything that is chosen from what was learned; `usual` is the ridge to start from if not `usual_ridge`."""
    return calibrate_left_out(taught, kind, usual)[0]


def calibrate_left_out(
    taught: TaughtClasses, kind: CovarianceKind = "full", usual: float | None = None
) -> tuple[HeadCalibration, LeftOutScores | None]:
    """As `calibrate`, with what leaving out says at the ridge that was chosen; None where nothing can be left out."""
    usual = usual_ridge(taught.covariance.freedom + len(taught.members)) if usual is None else usual
    with one_blas_thread() if _is_searched(taught, kind) else contextlib.nullcontext():
        found, left_out = _with_best_ridge(taught, kind, usual)
    # A few classes that can be judged say nothing of many that cannot.
    judged = (taught.effective_counts > 2 - 1e-9).mean()
    return found if judged >= 0.5 else found._replace(groups=0), left_out


def left_out_again(taught: TaughtClasses, ridge: float) -> LeftOutScores | None:
    """What leaving out says at the ridge that `calibrate_left_out` has chosen of these classes before."""
    with one_blas_thread() if _is_searched(taught, "full") else contextlib.nullcontext():
        return _leaving_out(taught, "full")(ridge)


def _is_searched(taught: TaughtClasses, kind: CovarianceKind) -> bool:
    """Whether several ridges are tried; with more rows than dimensions one feature hardly matters to the ridge."""
    covariance = taught.covariance
    directions = min(len(covariance.rows) or covariance.width, covariance.width)
    few = max(directions, len(taught.members)) <= MOST_CHOSEN
    return kind == "full" and few and bool(covariance.mean_eigenvalue())


def _leaving_out(taught: TaughtClasses, kind: CovarianceKind) -> Callable[[float], LeftOutScores | None]:
    """What leaves everything out, with a ridge that it is given."""
    if _is_searched(taught, kind):
        plan, variances = taught.plan_in_main_directions()
        level = taught.level()
        return lambda ridge: plan.carried_out(functools.partial(_flat_inverse, variances, ridge * level))

    def leave_out(ridge: float) -> LeftOutScores | None:
        one = kind != "full" or bool(taught.covariance.dense.size)  # inverses take long
        inverse = taught.inverse(ridge, kind) if one else lambda ridges: taught.inverse(ridges * ridge, kind)
        turned = taught.directions(ridge, kind) if one else None
        return taught.plan().carried_out(inverse, covariance_stays=kind != "full", turned=turned)

    return leave_out


def _with_best_ridge(
    taught: TaughtClasses, kind: CovarianceKind, usual: float
) -> tuple[HeadCalibration, LeftOutScores | None]:
    """With the ridge and the shrink under which what is left out is the likeliest."""
    leave_out = _leaving_out(taught, kind)
    steps, shrinks = (RIDGE_STEPS, SHRINKS) if _is_searched(taught, kind) else ((1.0,), (SHRINK,))

    @functools.cache
    def tried(place: int) -> tuple[float, HeadCalibration, LeftOutScores | None]:
        ridge = usual * steps[place]
        left_out = leave_out(ridge)
        if left_out is None:
            return 0.0, _guess(taught, usual, taught.inverse(usual, kind)), None
        loss, calibration = _calibration(left_out, ridge, shrinks)
        return loss + RIDGE_WEIGHT * math.log10(steps[place]) ** 2, calibration, left_out

    return tried(lowest_of(len(steps), lambda place: tried(place)[0]))[1:]


def lowest_of(count: int, loss: Callable[[int], float]) -> int:
    """The place, from 0 to `count` - 1, of the lowest loss. It falls towards that place and rises behind it."""
    best = count // 2
    for step in (-1, 1):
        while 0 <= best + step < count and loss(best + step) < loss(best):
            best += step
        if best != count // 2:
            break
    return best


def _flat_inverse(variances: Floats, ridge: float, ridges: float) -> RidgeInverse:
    return RidgeInverse(1 / (variances + ridges * ridge), 1, np.zeros((0, len(variances))))


def _guess(taught: TaughtClasses, ridge: float, inverse: RidgeInverse) -> HeadCalibration:
    """Where nothing can be left out: as if images of a class differed as much as classes do."""
    noise = float(inverse.lengths(taught.prototypes[:1000]).mean()) or 1.0
    return HeadCalibration(ridge, SHRINK, noise, TYPICAL_TEMPERATURE * math.sqrt(noise), 0.0, 0.0, 0)


def _calibration(left_out: LeftOutScores, ridge: float, shrinks: Sequence[float]) -> tuple[float, HeadCalibration]:
    """The loss with the best of `shrinks`, and the calibration."""
    typical = TYPICAL_TEMPERATURE * math.sqrt(max(left_out.noise, 1e-9))
    owners, votes = left_out.owners, left_out.votes
    options = []
    for shrink in shrinks:
        temperature, loss = likeliest_temperature(left_out.scores(shrink), owners, votes, typical)
        options.append((loss + SHRINK_WEIGHT * (shrink - SHRINK) ** 2, shrink, temperature))
    loss, shrink, temperature = min(options)
    familiar, total = left_out.familiarity(), float(votes.sum())
    mean = float(votes @ familiar) / total
    spread = math.sqrt(float(votes @ np.square(familiar - mean)) / (total - 1)) if total > 1.5 else 0.0
    return loss, HeadCalibration(ridge, shrink, left_out.noise, temperature, mean, spread, round(total))


def likeliest_temperature(
    scores: Floats, owners: npt.NDArray[np.int64], votes: Floats, typical: float
) -> tuple[float, float]:
    """The temperature under which the images' own classes are the likeliest, drawn to the typical one; and the loss.

    The penalised loss has one minimum in the logarithm of the temperature on the range tried, found by golden section.
    Written out, although `scipy.optimize.minimize_scalar` has it: importing `scipy.optimize` 1.17 took 0.43 s (best of
    five, after NumPy's own 0.25 s), and every command that answers one photo would wait for it.
    """
    above = scores - scores.max(1, keepdims=True)
    own = above[np.arange(len(owners)), owners]

    def loss(log: float) -> float:
        scale = math.exp(-log) / typical
        return float(votes @ (np.log(np.exp(scale * above).sum(1)) - scale * own))

    def drawn(log: float) -> float:
        return loss(log) + PRIOR_WEIGHT * log**2

    low, high = -3.0, 3.0
    golden = (math.sqrt(5) - 1) / 2
    one, two = high - golden * (high - low), low + golden * (high - low)
    at_one, at_two = drawn(one), drawn(two)
    while high - low > 0.01:
        if at_one < at_two:
            high, two, at_two = two, one, at_one
            one = high - golden * (high - low)
            at_one = drawn(one)
        else:
            low, one, at_one = one, two, at_two
            two = low + golden * (high - low)
            at_two = drawn(two)
    log = (low + high) / 2
    return typical * math.exp(log), loss(log)
