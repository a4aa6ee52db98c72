"""The floor: the nearest class mean of features that nothing trained."""

from collections.abc import Mapping

import torch
from torch import Tensor

from protoreplay.methods.base import Method, Problem, Reader, Report, prefixed, silent, under
from protoreplay.methods.features import FeatureSettings, extractor
from protoreplay.protocols import Task
from protoreplay.prototypes import class_probabilities, squared_distances


class NearestMeanConfig(FeatureSettings):
    """Settings of the nearest mean."""


class NearestMean(Method[NearestMeanConfig]):
    """One mean for every class of every task."""

    Config = NearestMeanConfig
    frozen = True
    summary = "the floor: nearest class mean, untrained,"

    def __init__(self, config: NearestMeanConfig, problem: Problem) -> None:
        """No means yet."""
        super().__init__(config, problem)
        body, width = extractor(config, problem.image_shape, self.initial_weights())
        self.body = body.to(self.device)
        self.means = torch.zeros(0, width, device=self.device)
        self.owners = torch.zeros(0, dtype=torch.int64, device=self.device)

    def features(self, images: Tensor) -> Tensor:
        """Of one batch, N x D."""
        features: Tensor = self.body(images)
        return features

    def learn(self, task: Task, report: Report = silent) -> None:
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
