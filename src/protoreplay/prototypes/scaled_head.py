"""The closed-form classifier on features of any size: seen from their centre, and scaled to a size near 1."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from protoreplay.prototypes.calibration import calibrate
from protoreplay.prototypes.covariance import CovarianceKind
from protoreplay.prototypes.prototype_head import PrototypeHead, Singles, head_of
from protoreplay.prototypes.sums import ClassSums, Floats, GaussianSum
from protoreplay.prototypes.taught import TaughtClasses

LOWEST_RIDGE, HIGHEST_RIDGE = 0.001, 60.0


class ScaledHead(NamedTuple):
    """The head, which calculates in single precision, takes features less `centre`, D, times `scale`."""

    centre: Floats
    scale: float
    head: PrototypeHead

    @classmethod
    def of(cls, names: Sequence[str], members: Sequence[ClassSums], kind: CovarianceKind = "full") -> "ScaledHead":
        """Of classes with their names; what leaving out their features says chooses the ridge and the shrink."""
        means = np.stack([member.mean for member in members])
        centre = means.mean(0)
        within = [np.square(m.scatter_rows()).mean() * m.scatter_size + m.even_scatter for m in members]
        count = sum(member.count for member in members)
        size = math.sqrt(sum(within) / count + np.square(means - centre).mean())
        scale = 2.0 ** -round(math.log2(size)) if size > 0 else 1.0
        taught = TaughtClasses.of([_moved(member, centre, scale) for member in members], None)
        # As many mean variances as there are dimensions for each sample: so much of a covariance is noise.
        usual = min(max(means.shape[1] / count, LOWEST_RIDGE), HIGHEST_RIDGE)
        return cls(centre, scale, head_of(tuple(names), taught, calibrate(taught, kind, usual), kind))

    def scores(self, features: Floats) -> tuple[Singles, Singles]:
        """As `PrototypeHead.scores`, of features as they are."""
        return self.head.scores((features - self.centre) * self.scale)


def _moved(member: ClassSums, centre: Floats, scale: float) -> ClassSums:
    """The class of features less `centre`, D, times `scale`."""
    others = member.others
    factor, even = others.factor * scale, others.even * scale**2
    moved = GaussianSum(others.weight, (others.mean - centre) * scale, factor, even)
    return ClassSums(member.keys, member.looks, member.weights, (member.rows - centre) * scale, moved)
