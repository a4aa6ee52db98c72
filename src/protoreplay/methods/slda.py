"""Streaming linear discriminant analysis: class means and one shrunk covariance that all classes share."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback, ignore_steps
from protoreplay.methods.base import Method, MethodContext, Reader, prefixed, under
from protoreplay.methods.fixed_features import FeatureSettings, extractor
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class SLDAConfig(FeatureSettings):
    """Settings of SLDA."""

    features: Literal["pixels", "random", "encoder"] = "encoder"
    """Raw pixels, random convolutions, or the trunk of the untrained encoder, which all methods share."""
    shrinkage: float = Field(0.5, gt=0, le=1)
    """The covariance is `(1 - shrinkage)` times the one seen plus `shrinkage` times its mean eigenvalue in every
    direction (ours: equal parts)."""


class SLDA(Method[SLDAConfig]):
    """A mean for every class of every task, and the scatter of all images around their means; all classes alike likely.

    The images are gone after their task; means and scatter are those that all of them together would give.
    """

    Config = SLDAConfig
    frozen = True
    summary = "streaming linear discriminant, one shrunk covariance, on untrained features"

    def __init__(self, config: SLDAConfig, context: MethodContext) -> None:
        """No means, no scatter."""
        super().__init__(config, context)
        body, width = extractor(config, context.image_shape, self.initial_weights())
        self.body = body.to(self.device)
        self.means = torch.zeros(0, width, device=self.device)
        self.owners = torch.zeros(0, dtype=torch.int64, device=self.device)
        self.scatter = torch.zeros(width, width, device=self.device)
        self.count = torch.zeros((), dtype=torch.int64)
        self.directions = torch.zeros(0, width, device=self.device)

    def features(self, images: Tensor) -> Tensor:
        """Of one batch, N x D."""
        features: Tensor = self.body(images)
        return features

    def learn(self, task: Task, report: StepCallback = ignore_steps) -> None:
        """Add the means of the task's classes and the scatter around them."""
        features = self.features(task.images.to(self.device))
        for label in task.classes:
            own = features[(task.labels == label).to(self.device)]
            mean = own.mean(0)
            self.means = torch.cat([self.means, mean[None]])
            self.scatter = self.scatter.addmm((own - mean).T, own - mean)
        self.owners = torch.cat([self.owners, torch.tensor(task.classes, device=self.device)])
        self.count = self.count + len(task.labels)
        self.directions = discriminants(self.means, self.scatter / self.count, self.config.shrinkage)
        self.see(task)

    def scores(self, features: Tensor) -> Tensor:
        """Log-likelihoods under Gaussians around each mean, N x K, up to a number for each image."""
        centre = self.means.mean(0)
        return (features - centre) @ self.directions.T - ((self.means - centre) * self.directions).sum(1) / 2

    def reader(self) -> Reader:
        """The likeliest mean's class."""
        classes = torch.tensor(self.classes, device=self.device)
        return lambda features: class_probabilities(self.scores(features).softmax(1), self.owners, classes)

    def tensors(self) -> dict[str, Tensor]:
        """Means, scatter, the discriminants that follow from them, and what the features are made with."""
        means = {"prototypes.mean": self.means, "prototypes.classes": self.owners}
        scatter = {"scatter.sum": self.scatter, "scatter.images": self.count}
        features = prefixed("features", self.body.state_dict())
        return means | scatter | {"discriminants": self.directions} | features

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        here = {name: tensor.to(self.device) for name, tensor in tensors.items()}
        self.means, self.owners = here["prototypes.mean"], here["prototypes.classes"]
        self.scatter, self.count = here["scatter.sum"], tensors["scatter.images"]
        self.directions = here["discriminants"]
        self.body.load_state_dict(under("features", tensors))


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
