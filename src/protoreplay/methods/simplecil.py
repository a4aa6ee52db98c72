"""SimpleCIL: the class mean of frozen features that an image's features have the smallest angle to.

Zhou, Cai, Ye, Zhan and Liu 2024, "Revisiting Class-Incremental Learning with Pre-Trained Models: Generalizability and
Adaptivity are All You Need" (International Journal of Computer Vision). A classifier whose weights are the prototypes:

    score of class c for x  =  cos(f(x), m_c),    m_c = the mean of f over the images of class c
"""

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier
from protoreplay.methods.fixed_features import FixedFeatureMethod, TrunkFeatureSettings
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class SimpleCILConfig(TrunkFeatureSettings):
    """Settings of SimpleCIL: which features, and nothing else."""


class SimpleCIL(FixedFeatureMethod[SimpleCILConfig]):
    """One mean for every class of every task; the one with the largest cosine answers."""

    Config = SimpleCILConfig
    summary = "SimpleCIL: largest cosine to a class mean, on frozen features"

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Average the features of each class."""
        means = [own.mean(0) for own in self.by_class(task, self.embed(task.images))]
        self.prototypes = self.prototypes.plus(torch.stack(means), task.classes)

    def _classifier(self) -> BatchClassifier:
        """Softmax of the cosines."""
        classes, means = torch.tensor(self.classes, device=self.device), functional.normalize(self.prototypes.mean)

        def read(features: Tensor) -> Tensor:
            cosines = functional.normalize(features) @ means.T
            return class_probabilities(cosines.softmax(1), self.prototypes.classes, classes)

        return read
