"""Streaming linear discriminant analysis: class means and one shrunk covariance that all classes share."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier, MethodContext
from protoreplay.methods.fixed_features import FixedFeatureMethod, TrunkFeatureSettings
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class SLDAConfig(TrunkFeatureSettings):
    """Settings of SLDA."""

    shrinkage: float = Field(0.5, gt=0, le=1)
    """The covariance is `(1 - shrinkage)` times the observed one plus `shrinkage` times its mean eigenvalue times the
    identity (ours: equal parts)."""


class Scatter(NamedTuple):
    """The sum of products of differences from class means, D x D, and the number of images in it, int64."""

    sum: Tensor
    images: Tensor


class SLDA(FixedFeatureMethod[SLDAConfig]):
    """A mean for every class of every task, and the scatter of all images around their means; all classes alike likely.

    The images are gone after their task; means and scatter are those that all of them together would give.
    """

    Config = SLDAConfig
    summary = "streaming linear discriminant, one shrunk covariance, on untrained features"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"shrinkage": (1e-4, 1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9)}

    def __init__(self, config: SLDAConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        width = self.width
        nothing = Scatter(torch.zeros(width, width, device=self.device), torch.zeros((), dtype=torch.int64))
        self.scatter = self.carry("scatter", nothing)
        self.discriminants = self.carry("discriminants", torch.zeros(0, width, device=self.device))

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Add the means of the task's classes and the scatter around them."""
        features = self.embed(task.images)
        total, images = self.scatter
        means = []
        for own in self.by_class(task, features):
            means.append(own.mean(0))
            total = total.addmm((own - means[-1]).T, own - means[-1])
        self.prototypes = self.prototypes.plus(torch.stack(means), task.classes)
        self.scatter = Scatter(total, images + len(task.labels))
        covariance = self.scatter.sum / self.scatter.images
        self.discriminants = discriminants(self.prototypes.mean, covariance, self.config.shrinkage)

    def scores(self, features: Tensor) -> Tensor:
        """Log-likelihoods under Gaussians around each mean, N x K, up to a number for each image."""
        centre = self.prototypes.mean.mean(0)
        offsets = ((self.prototypes.mean - centre) * self.discriminants).sum(1) / 2
        return (features - centre) @ self.discriminants.T - offsets

    def _classifier(self) -> BatchClassifier:
        """The likeliest mean's class."""
        classes = torch.tensor(self.classes, device=self.device)
        return lambda features: class_probabilities(self.scores(features).softmax(1), self.prototypes.classes, classes)


def discriminants(means: Tensor, covariance: Tensor, shrinkage: float) -> Tensor:
    """Each mean (K x D), seen from the centre of all, times the inverse of the shrunk covariance (D x D): K x D.

    The centre changes all scores of an image alike; around it, the numbers that cancel are small. Of images that do
    not vary at all, the covariance is taken as the identity.
    """
    covariance = covariance.double()
    level = covariance.diagonal().mean()
    level = torch.where(level > 0, level, 1.0)
    shrunk = (1 - shrinkage) * covariance
    shrunk.diagonal().add_(shrinkage * level)
    factor = torch.linalg.cholesky(shrunk)
    return torch.cholesky_solve((means - means.mean(0)).double().T, factor).T.to(means.dtype)
