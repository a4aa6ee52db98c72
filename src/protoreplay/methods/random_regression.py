"""What RanPAC and ACIL share: ridge regression to the classes on a fixed random layer over frozen features."""

from abc import abstractmethod
from typing import TypeVar

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier, MethodContext
from protoreplay.methods.fixed_features import FixedFeatureMethod, TrunkFeatureSettings
from protoreplay.methods.ridge import RidgeRegression
from protoreplay.streams.stream import Task

BLOCK = 8192
"""Images whose expanded features are held at one time."""


class ExpansionSettings(TrunkFeatureSettings):
    """Settings of methods that expand features by a random layer."""

    expansion: int = Field(10_000, ge=1)
    """Width of the random layer."""


X = TypeVar("X", bound=ExpansionSettings)


class RandomRegression(FixedFeatureMethod[X]):
    """Expanded features, and what the regression takes from those of all images; a class that comes back is one class.

    The weights are those that one regression on the images of all tasks together would give.
    """

    keeps_means = False

    def __init__(self, config: X, context: MethodContext) -> None:
        super().__init__(config, context)
        self.regression = self.carry("regression", RidgeRegression.none(self.device))

    @property
    def deterministic(self) -> bool:
        """The layer is drawn from the seed."""
        return False

    @abstractmethod
    def expanded(self, features: Tensor) -> Tensor:
        """What the random layer makes of features, N x D: N x expansion."""

    @abstractmethod
    def current_ridge(self) -> float:
        """The ridge that the weights are computed with now."""

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Take the task's images into the regression."""
        widened = self.regression.widened(self.old_classes, self.classes)
        self.regression = self.fitted(widened, self.embed(task.images), self.columns(task.labels))

    def fitted(self, regression: RidgeRegression, features: Tensor, columns: Tensor) -> RidgeRegression:
        """`regression` with more images, by their features, N x D, and columns (int64, N)."""
        for rows, own in zip(features.split(BLOCK), columns.split(BLOCK), strict=True):
            regression = regression.plus(self.expanded(rows), own)
        return regression

    def weights(self) -> Tensor:
        """The weights of the classes seen, expansion x C."""
        return self.regression.weights(self.current_ridge(), self.config.expansion)

    def _classifier(self) -> BatchClassifier:
        """Softmax of what the regression gives for each class."""
        weights = self.weights().to(torch.float32)
        return lambda features: (self.expanded(features) @ weights).softmax(1)
