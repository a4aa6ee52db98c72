"""`vpr` where a frozen encoder gives the features: the heart of the photo classifier, task after task.

A class is a Gaussian among the features: a mean of its own, and the covariance that all classes share. Leaving out what
was learned, one image at a time, chooses how much ridge the covariance gets, how far prototypes are drawn to their
centre, and how sure answers are. Nothing is trained and no image is kept.
"""

from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.core.settings import Settings
from protoreplay.encoders.fixed import GivenFeatures
from protoreplay.methods.base import BatchClassifier, Method, MethodContext
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.prototypes.scaled_head import ScaledHead
from protoreplay.prototypes.sums import ClassSums, GaussianSum
from protoreplay.streams.stream import Task


class VPRFeatureConfig(Settings):
    """Settings of VPR on the features of `--encoder`; everything else is chosen by leaving images out."""

    singles: int = Field(15, ge=2)
    """Features of a class that are kept singly, to be left out, once it has more than `singles + rank` (as the photo
    classifier)."""
    rank: int = Field(15, ge=1)
    """Directions in which the features that are not kept singly are summed up (as the photo classifier)."""


@dataclass(frozen=True)
class FeatureGaussian:
    """What is kept of one class of one task.

    Attributes:
        label: int64, 1, the class.
        rows: M x D, features that are kept singly.
        weight: float64, 1, how many others there are.
        mean: of the others, float64, D.
        factor: R x D: the products of its rows add up to the covariance of the others, but for `even`.
        even: float64, 1, their variance in every other direction.
    """

    label: Tensor
    rows: Tensor
    weight: Tensor
    mean: Tensor
    factor: Tensor
    even: Tensor

    @classmethod
    def of(cls, label: int, sums: ClassSums) -> "FeatureGaussian":
        """From the sums of a class."""
        others = sums.others
        return cls(
            torch.tensor([label]),
            torch.from_numpy(sums.rows.astype(np.float32)),
            torch.tensor([others.weight], dtype=torch.float64),
            torch.from_numpy(others.mean.astype(np.float64)) if others.weight else torch.zeros(0, dtype=torch.float64),
            torch.from_numpy(others.factor.astype(np.float32)),
            torch.tensor([others.even], dtype=torch.float64),
        )

    @classmethod
    def empty(cls) -> "FeatureGaussian":
        """Of nothing."""
        return cls(torch.zeros(0, dtype=torch.int64), *[torch.zeros(0)] * 5)

    def sums(self) -> ClassSums:
        """As the heart takes them."""
        count, width = self.rows.shape
        nothing = np.zeros(count, np.uint64)
        mean = self.mean.numpy() if len(self.mean) else np.zeros(width)
        others = GaussianSum(float(self.weight), mean, self.factor.numpy(), float(self.even))
        return ClassSums(np.arange(count, dtype=np.uint64), nothing, np.ones(count), self.rows.numpy(), others)


class VPROnFeatures(Method[VPRFeatureConfig]):
    """A Gaussian for every class of every task, and one covariance that all of them share."""

    Config = VPRFeatureConfig
    frozen = True
    summary = "variational prototypes on given features; replay in closed form"
    deterministic = True

    def __init__(self, config: VPRFeatureConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self._body = GivenFeatures()
        self.gaussians: list[FeatureGaussian] = self.carry("gaussians", [], FeatureGaussian.empty())

    def _features(self, images: Tensor) -> Tensor:
        """N x D x 1 x 1 to N x D."""
        features: Tensor = self._body(images)
        return features

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Add the Gaussians of the task's classes."""
        features = self._features(task.images)
        added = []
        for label in task.classes:
            own = features[task.labels == label].numpy()
            sums = ClassSums.of(own.astype(np.float64), range(len(own)), kind=np.float32)
            added.append(FeatureGaussian.of(label, sums.reduced(self.config.singles, self.config.rank)))
        self.gaussians = [*self.gaussians, *added]

    def _classifier(self) -> BatchClassifier:
        """The likeliest Gaussian's class."""
        owners = torch.cat([one.label for one in self.gaussians])
        scaled = ScaledHead.of(list(map(str, owners.tolist())), [one.sums() for one in self.gaussians])
        temperature, classes = scaled.head.calibration.temperature, torch.tensor(self.classes)

        def read(features: Tensor) -> Tensor:
            scores = torch.from_numpy(scaled.scores(features.cpu().double().numpy())[0].astype(np.float32))
            return class_probabilities((scores / temperature).softmax(1), owners, classes)

        return read
