"""FeCAM: the nearest class mean in the Mahalanobis distance of each class's own covariance.

Goswami, Liu, Twardowski and van de Weijer 2023, "FeCAM: Exploiting the Heterogeneity of Class Distributions in
Exemplar-Free Continual Learning" (NeurIPS). With Tukey's transform t(x) = sign(x) |x|^power, and S the covariance of
t(f) over the images of a class, V1 the mean of its diagonal and V2 that of the rest,

    S' = S + a1 V1 I + a2 V2 (1 - I),    C = S' scaled to a diagonal of ones,
    distance^2 = (u(x) - u(m))^T C^-1 (u(x) - u(m)),    u(x) = t(x) / |t(x)|

Of a class of n images S has rank n - 1, so that S' is a multiple of the identity, a constant, and a few rows; where
these are fewer than dimensions, no D x D matrix is ever made.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier, MethodContext
from protoreplay.methods.factors import TriangularFactor
from protoreplay.methods.fixed_features import FixedFeatureMethod, TrunkFeatureSettings
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class FeCAMConfig(TrunkFeatureSettings):
    """Settings of FeCAM."""

    power: float = Field(0.5, gt=0, le=1)
    """Features are raised to this power, each with its sign (Goswami et al. 2023: 0.5; with features that may be
    negative they use none, which is 1)."""
    covariance: Literal["class", "common"] = "class"
    """A covariance for each class, or the mean of all of them for all (both of Goswami et al. 2023)."""
    normalise: bool = True
    """Scale the covariance to a correlation matrix (Goswami et al. 2023; their code can leave it out)."""
    shrink_diagonal: float = Field(1.0, gt=0)
    """a1, mean variances that are added to every variance (Goswami et al. 2023: 1)."""
    shrink_rest: float = Field(1.0, ge=0)
    """a2, mean covariances that are added to every covariance (Goswami et al. 2023: 1)."""


class FeCAM(FixedFeatureMethod[FeCAMConfig]):
    """A mean and a covariance for every class of every task, or one covariance for all."""

    Config = FeCAMConfig
    summary = "FeCAM: Mahalanobis distance with a covariance of each class, on frozen features"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "covariance": ("class", "common"),
        "shrink_diagonal": (0.1, 1.0, 10.0, 100.0),
        "shrink_rest": (0.0, 1.0),
    }

    def __init__(self, config: FeCAMConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        nothing: list[TriangularFactor] = []
        self.covariances = self.carry("covariances", nothing, TriangularFactor.none(self.device))

    def transformed(self, features: Tensor) -> Tensor:
        """Tukey's transform of features, N x D, in double precision."""
        features = features.double()
        return features.sign() * features.abs() ** self.config.power

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Add the mean of each class's features, and the covariance of what the transform makes of them."""
        own = self.by_class(task, self.embed(task.images))
        self.prototypes = self.prototypes.plus(torch.stack([rows.mean(0) for rows in own]), task.classes)
        for rows in (deviations(self.transformed(rows)) for rows in own):
            if self.config.covariance == "common" and self.covariances:
                self.covariances = [self.covariances[0].plus(rows)]
            else:
                self.covariances = [*self.covariances, TriangularFactor.of(rows)]

    def _classifier(self) -> BatchClassifier:
        """Softmax of the negative squared distances."""
        classes = torch.tensor(self.classes, device=self.device)
        means = functional.normalize(self.transformed(self.prototypes.mean))
        centre = means.mean(0)
        common = self.config.covariance == "common"
        squared_distances = self._common(means - centre) if common else self._by_class(means - centre)

        def read(features: Tensor) -> Tensor:
            x = functional.normalize(self.transformed(features)) - centre
            nearest = (-squared_distances(x)).softmax(1)
            return class_probabilities(nearest, self.prototypes.classes, classes).float()

        return read

    def _common(self, means: Tensor) -> BatchClassifier:
        """Squared distances, N x K, from means, K x D, less what those of an image have in common."""
        scale, rows, weight = self._inverse(self.covariances[0].dense(self.width) / len(means) ** 0.5)
        directions = means * scale - (means @ rows.T * weight) @ rows
        offsets = (means * directions).sum(1)
        return lambda x: offsets - 2 * x @ directions.T

    def _by_class(self, means: Tensor) -> BatchClassifier:
        """Squared distances, N x K, from means, K x D: the rows of all classes in one product."""
        inverses = [self._inverse(factor.dense(self.width)) for factor in self.covariances]
        scale, rows, weight = (torch.stack([one.scale for one in inverses]), *_together(inverses))
        counts = torch.tensor([len(one.rows) for one in inverses], device=self.device)
        owner = torch.arange(len(inverses), device=self.device).repeat_interleave(counts)
        at_mean, lengths = (rows * means[owner]).sum(1), (scale * means.square()).sum(1)

        def squared(x: Tensor) -> Tensor:
            along = (x @ rows.T - at_mean).square() * weight
            whole = x.square() @ scale.T - 2 * x @ (scale * means).T + lengths
            return whole.index_add(1, owner, along, alpha=-1)

        return squared

    def _inverse(self, factor: Tensor) -> "CorrelationInverse":
        config = self.config
        return correlation_inverse(factor, config.shrink_diagonal, config.shrink_rest, config.normalise)


class CorrelationInverse(NamedTuple):
    """The inverse of a correlation matrix: `diag(scale) - rows^T diag(weight) rows`.

    Attributes:
        scale: D.
        rows: r x D.
        weight: r.
    """

    scale: Tensor
    rows: Tensor
    weight: Tensor


def _together(inverses: list[CorrelationInverse]) -> tuple[Tensor, Tensor]:
    return torch.cat([one.rows for one in inverses]), torch.cat([one.weight for one in inverses])


def deviations(rows: Tensor) -> Tensor:
    """Rows, N x D, around their mean, scaled so that the sum of their products is their covariance."""
    apart: Tensor = rows - rows.mean(0)
    return apart / math.sqrt(max(len(rows) - 1, 1))


def correlation_inverse(factor: Tensor, diagonal: float, rest: float, normalise: bool = True) -> CorrelationInverse:
    """Of the covariance `F^T F`, shrunk and scaled to a correlation matrix; where nothing varies, of the identity.

    Args:
        factor: F, r x D, float64.
        diagonal: mean variances that are added to every variance.
        rest: mean covariances that are added to every covariance.
        normalise: whether it is scaled.
    """
    width = factor.shape[1]
    variances = factor.square().sum(0)
    level = float(variances.mean())
    if level == 0:
        return CorrelationInverse(torch.ones_like(variances), factor[:0], variances[:0])
    between = float(factor.sum(1).square().sum() - variances.sum()) / max(width * (width - 1), 1)
    # The shrunk covariance is base I + constant 1 1^T + F^T F. Covariances that are added are less than variances but
    # for settings that no covariance matrix fits; these get the nearest that does.
    constant = rest * between
    base = max(diagonal * level - constant, 1e-6 * level)
    rows = torch.cat([factor, factor.new_full((1, width), abs(constant) ** 0.5)])
    signs = factor.new_ones(len(rows))
    signs[-1] = -1 if constant < 0 else 1
    values, vectors = torch.linalg.eigh(rows @ rows.T + base * signs.diag())
    shrunk = variances + base + constant if normalise else torch.ones_like(variances)
    return CorrelationInverse(shrunk / base, (vectors.T @ rows) * shrunk.sqrt(), 1 / (base * values))
