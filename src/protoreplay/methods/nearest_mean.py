"""The floor: the nearest class mean of features that nothing trained."""

import torch
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier, Method, MethodContext
from protoreplay.methods.fixed_features import FeatureSettings, extractor
from protoreplay.prototypes.distances import squared_distances
from protoreplay.prototypes.gaussians import ClassMeans, class_probabilities
from protoreplay.streams.stream import Task


class NearestMeanConfig(FeatureSettings):
    """Settings of the nearest mean."""


class NearestMean(Method[NearestMeanConfig]):
    """One mean for every class of every task."""

    Config = NearestMeanConfig
    frozen = True
    summary = "the floor: nearest class mean, untrained,"

    def __init__(self, config: NearestMeanConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        body, width = extractor(config, context.image_shape, self.initial_weights())
        self.prototypes = self.carry("prototypes", ClassMeans.none(width, self.device))
        self.features = self.carry("features", body.to(self.device))

    @property
    def deterministic(self) -> bool:
        """Pixels are the same with every seed."""
        return self.config.features == "pixels"

    def _features(self, images: Tensor) -> Tensor:
        """Of one batch of images, uint8 N x C x H x W, the features that nothing trains, N x D."""
        features: Tensor = self.features(images)
        return features

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Average the features of each class."""
        features = self._features(task.images.to(self.device))
        means = [features[(task.labels == label).to(self.device)].mean(0) for label in task.classes]
        self.prototypes = self.prototypes.plus(torch.stack(means), task.classes)

    def _classifier(self) -> BatchClassifier:
        """Softmax of the negative distances."""
        classes = torch.tensor(self.classes, device=self.device)

        def read(features: Tensor) -> Tensor:
            nearest = (-squared_distances(features, self.prototypes.mean).sqrt()).softmax(1)
            return class_probabilities(nearest, self.prototypes.classes, classes)

        return read
