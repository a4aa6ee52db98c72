"""ACIL: recursive ridge regression to the classes on a random layer, and with GKEAL's layer on Gaussian kernels.

Zhuang, Weng, Wei, Xie, Toh and Lin 2022, "ACIL: Analytic Class-Incremental Learning with Absolute Memorization and
Privacy Protection" (NeurIPS); Zhuang, Weng, He, Lin and Zeng 2023, "GKEAL: Gaussian Kernel Embedded Analytic Learning
for Few-Shot Class Incremental Task" (CVPR).

    layer=random:    h(x) = relu(f(x) W),    W uniform in +- 1 / sqrt(D)
    layer=gaussian:  h(x)_k = exp(-|f(x) - c_k|^2 / (2 sigma^2))
    scores = h(x)^T (sum of h h^T + ridge I)^-1 (sum of h y^T)

The recursion of the papers keeps the inverse; here the same sums are kept as a triangle, and the weights are the same.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import MethodContext
from protoreplay.methods.random_regression import ExpansionSettings, RandomRegression
from protoreplay.prototypes.distances import squared_distances
from protoreplay.streams.stream import Task


class ACILConfig(ExpansionSettings):
    """Settings of ACIL."""

    expansion: int = Field(8192, ge=1)
    """Width of the layer (the authors' code: 8,192; GKEAL's: 512)."""
    layer: Literal["random", "gaussian"] = "random"
    """A rectified random layer (ACIL), or Gaussian kernels around centres (GKEAL): images of the first task, and where
    these are too few for `expansion`, points drawn from the Gaussian of their mean and covariance (ours)."""
    sigma: float = Field(10.0, gt=0)
    """Width of the Gaussian kernels (Zhuang et al. 2023: 5 to 15, for features of a trained network; features of unit
    length want less)."""
    ridge: float = Field(0.1, gt=0)
    """Ridge added to every eigenvalue of the sum of products (the authors' code: 0.1)."""


class ACIL(RandomRegression[ACILConfig]):
    """A random or a Gaussian-kernel layer, and ridge regression with one ridge."""

    Config = ACILConfig
    summary = "ACIL: ridge regression on a random or Gaussian-kernel layer, on frozen features"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "layer": ("random", "gaussian"),
        "sigma": (1.0, 10.0),
        "ridge": (1e-4, 1e-2, 0.1, 1.0, 10.0),
    }

    def __init__(self, config: ACILConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        layer = torch.zeros(config.expansion, self.width)
        if config.layer == "random":
            drawn = torch.rand(config.expansion, self.width, generator=self.generator("layer"))
            layer = (2 * drawn - 1) / self.width**0.5
        self.layer = self.carry("layer", layer.to(self.device))
        """Weights, or centres, expansion x D."""

    def expanded(self, features: Tensor) -> Tensor:
        """What the layer makes of features."""
        if self.config.layer == "random":
            return (features @ self.layer.T).relu_()
        return (squared_distances(features, self.layer) / (-2 * self.config.sigma**2)).exp_()

    def current_ridge(self) -> float:
        """The one that is set."""
        return self.config.ridge

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Choose the centres if there are any and this is the first task; then take the images into the regression."""
        if self.config.layer == "gaussian" and not self.old_classes:
            random = self.generator("centres")
            self.layer = drawn_centres(self.embed(task.images), self.config.expansion, random)
        super()._learn(task, on_step)


def drawn_centres(features: Tensor, count: int, random: torch.Generator) -> Tensor:
    """So many rows, count x D: of `features`, N x D, in random order, then from the Gaussian of mean and covariance."""
    order = torch.randperm(len(features), generator=random)[:count].to(features.device)
    missing = count - len(order)
    noise = torch.randn(missing, len(features), generator=random).to(features.device)
    mean = features.mean(0)
    return torch.cat([features[order], mean + noise @ (features - mean) / len(features) ** 0.5])
