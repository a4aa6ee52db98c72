"""RanPAC: frozen features through a random layer, then ridge regression to the classes.

McDonnell, Gong, Parvaneh, Abbasnejad and van den Hengel 2023, "RanPAC: Random Projections and Pre-trained Models for
Continual Learning" (NeurIPS). With a Gaussian W that is drawn once,

    h(x) = relu(f(x) W),    G = sum of h h^T,    Q = sum of h y^T,    scores = h(x)^T (G + ridge I)^-1 Q

where y is the one-hot class. G and Q are sums over all images of all tasks, so the order of tasks does not matter. The
ridge is the one with the smallest squared error on a fifth of the task's images, fitted to the other four fifths.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import MethodContext
from protoreplay.methods.random_regression import ExpansionSettings, RandomRegression
from protoreplay.methods.ridge import RidgeRegression, best_ridge
from protoreplay.streams.stream import Task

RIDGES = tuple(10.0**power for power in range(-8, 9))
"""What the ridge is chosen from (McDonnell et al. 2023)."""


class RanPACConfig(ExpansionSettings):
    """Settings of RanPAC."""

    expansion: int = Field(10_000, ge=1)
    """Width of the random layer (McDonnell et al. 2023: 10,000)."""
    ridge: Annotated[float, Field(gt=0)] | Literal["split"] = "split"
    """The ridge, or `split`: of 1e-8 to 1e8 the best on a fifth of the task's images (McDonnell et al. 2023)."""


class RanPAC(RandomRegression[RanPACConfig]):
    """A Gaussian layer, rectified, and ridge regression with a ridge that each task chooses anew."""

    Config = RanPACConfig
    summary = "RanPAC: ridge regression on a rectified random layer, on frozen features"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"ridge": ("split", 1.0, 10.0, 100.0, 1e3, 1e4)}

    def __init__(self, config: RanPACConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        drawn = torch.randn(self.width, config.expansion, generator=self.generator("projection"))
        self.projection = self.carry("projection", drawn.to(self.device))
        self.ridge = self.carry("ridge", torch.ones((), dtype=torch.float64))
        """What the last task of two images or more chose; 1 before."""

    def expanded(self, features: Tensor) -> Tensor:
        """`relu(f W)`."""
        return (features @ self.projection).relu_()

    def current_ridge(self) -> float:
        """As set, or as chosen."""
        return float(self.ridge) if self.config.ridge == "split" else self.config.ridge

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Take the task's images into the regression, and choose the ridge by them."""
        super()._learn(task, on_step)
        if self.config.ridge == "split" and len(task.labels) > 1:
            self.ridge = torch.tensor(self._chosen_ridge(task), dtype=torch.float64)

    def _chosen_ridge(self, task: Task) -> float:
        order = torch.randperm(len(task.labels), generator=self.generator("split", task.position))
        features, columns = self.embed(task.images[order]), self.columns(task.labels[order])
        fitted = int(0.8 * len(order))
        nothing = RidgeRegression.none(self.device).widened((), self.classes)
        regression = self.fitted(nothing, features[:fitted], columns[:fitted])
        return best_ridge(regression, self.expanded(features[fitted:]), columns[fitted:], RIDGES)
