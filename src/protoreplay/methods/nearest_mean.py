"""The floor: the nearest class mean of features that nothing trained."""

from collections.abc import Mapping

import torch
from torch import Tensor

from protoreplay.core.progress import StepCallback, ignore_steps
from protoreplay.methods.base import Method, MethodContext, Reader, prefixed, under
from protoreplay.methods.fixed_features import FeatureSettings, extractor
from protoreplay.prototypes.distances import squared_distances
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class NearestMeanConfig(FeatureSettings):
    """Settings of the nearest mean."""


class NearestMean(Method[NearestMeanConfig]):
    """One mean for every class of every task."""

    Config = NearestMeanConfig
    frozen = True
    summary = "the floor: nearest class mean, untrained,"

    def __init__(self, config: NearestMeanConfig, context: MethodContext) -> None:
        """No means yet."""
        super().__init__(config, context)
        body, width = extractor(config, context.image_shape, self.initial_weights())
        self.body = body.to(self.device)
        self.means = torch.zeros(0, width, device=self.device)
        self.owners = torch.zeros(0, dtype=torch.int64, device=self.device)

    def features(self, images: Tensor) -> Tensor:
        """Of one batch, N x D."""
        features: Tensor = self.body(images)
        return features

    def learn(self, task: Task, report: StepCallback = ignore_steps) -> None:
        """Average the features of each class."""
        features = self.features(task.images.to(self.device))
        means = [features[(task.labels == label).to(self.device)].mean(0) for label in task.classes]
        self.means = torch.cat([self.means, torch.stack(means)])
        self.owners = torch.cat([self.owners, torch.tensor(task.classes, device=self.device)])
        self.see(task)

    def reader(self) -> Reader:
        """Softmax of the negative distances."""
        classes = torch.tensor(self.classes, device=self.device)

        def read(features: Tensor) -> Tensor:
            nearest = (-squared_distances(features, self.means).sqrt()).softmax(1)
            return class_probabilities(nearest, self.owners, classes)

        return read

    def tensors(self) -> dict[str, Tensor]:
        """The means and the class of each, and what the features are made with."""
        means = {"prototypes.mean": self.means, "prototypes.classes": self.owners}
        return means | prefixed("features", self.body.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        self.means = tensors["prototypes.mean"].to(self.device)
        self.owners = tensors["prototypes.classes"].to(self.device)
        self.body.load_state_dict(under("features", tensors))
