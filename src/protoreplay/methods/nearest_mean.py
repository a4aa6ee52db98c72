"""The training-free baseline: the nearest class mean of features that nothing trained."""

import torch
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier
from protoreplay.methods.fixed_features import FeatureSettings, FixedFeatureMethod
from protoreplay.prototypes.distances import squared_distances
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class NearestMeanConfig(FeatureSettings):
    """Settings of the nearest mean."""


class NearestMean(FixedFeatureMethod[NearestMeanConfig]):
    """One mean for every class of every task."""

    Config = NearestMeanConfig
    summary = "training-free baseline: nearest class mean"

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Average the features of each class."""
        means = [own.mean(0) for own in self.by_class(task, self.embed(task.images))]
        self.prototypes = self.prototypes.plus(torch.stack(means), task.classes)

    def _classifier(self) -> BatchClassifier:
        """Softmax of the negative distances."""
        classes = torch.tensor(self.classes, device=self.device)

        def read(features: Tensor) -> Tensor:
            nearest = (-squared_distances(features, self.prototypes.mean).sqrt()).softmax(1)
            return class_probabilities(nearest, self.prototypes.classes, classes)

        return read
