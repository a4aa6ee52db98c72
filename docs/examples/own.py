"""A method, an encoder and a dataset of one's own, in one file outside the package.

protoreplay bench split:own.py:waves --methods own.py:FeCAM,ewc,vpr-paper --set encoder=own.py:SmallResNet --jobs 2
"""

from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.data.images import Dataset, ImageSet
from protoreplay.methods.base import BatchClassifier, MethodContext
from protoreplay.methods.fixed_features import FeatureSettings, FixedFeatureMethod
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task


class FeCAMConfig(FeatureSettings):
    """Every setting has a default, a range, and a docstring that says where the value comes from."""

    features: Literal["pixels", "random", "encoder"] = "encoder"
    """Untrained features: raw pixels, random convolutions, or the trunk of the encoder."""
    power: float = Field(0.5, gt=0, le=1)
    """Features are raised to this power (Goswami et al. 2023: 0.5)."""
    shrink: float = Field(1.0, ge=0)
    """Mean variance and mean covariance that are added to the diagonal and to the rest (Goswami et al. 2023: 1)."""


class FeCAM(FixedFeatureMethod[FeCAMConfig]):
    """Nearest class mean in the Mahalanobis distance of each class's own covariance.

    Goswami, Liu, Twardowski and van de Weijer 2023, "FeCAM: Exploiting the Heterogeneity of Class Distributions in
    Exemplar-Free Continual Learning".
    """

    Config = FeCAMConfig
    summary = "FeCAM: Mahalanobis distance with a covariance of each class, on untrained features"
    search: ClassVar = {"shrink": (0.1, 1.0, 10.0)}

    def __init__(self, config: FeCAMConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        # What is carried from task to task is declared here, once: it is saved, restored and counted.
        width = self.prototypes.mean.shape[1]
        self.covariances = self.carry("covariances", torch.zeros(0, width, width, device=self.device))

    def _features(self, images: Tensor) -> Tensor:
        """The base class's features of a batch, N x D, raised to the power."""
        features = super()._features(images)
        return features.sign() * features.abs() ** self.config.power

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Add a mean and a covariance for each class of the task."""
        features = self._features(task.images.to(self.device))
        own = [features[(task.labels == label).to(self.device)] for label in task.classes]
        self.prototypes = self.prototypes.plus(torch.stack([rows.mean(0) for rows in own]), task.classes)
        fresh = [_correlation(rows, self.config.shrink) for rows in own]
        self.covariances = torch.cat([self.covariances, torch.stack(fresh)])

    def _classifier(self) -> BatchClassifier:
        """What all batches need is computed here, once: the inverse covariances."""
        means, owners = functional.normalize(self.prototypes.mean), self.prototypes.classes
        inverses = torch.linalg.inv(self.covariances)
        classes = torch.tensor(self.classes, device=self.device)

        def classify(features: Tensor) -> Tensor:
            apart = functional.normalize(features)[:, None] - means
            squared = torch.einsum("nkd,kde,nke->nk", apart, inverses, apart)
            return class_probabilities((-squared).softmax(1), owners, classes)

        return classify


def _correlation(rows: Tensor, shrink: float) -> Tensor:
    """The covariance of rows, N x D, shrunk and scaled to a correlation matrix, D x D."""
    apart = rows - rows.mean(0)
    covariance = apart.T @ apart / max(len(rows) - 1, 1)
    diagonal = torch.eye(len(covariance), device=rows.device)
    variance, rest = covariance.diagonal().mean(), (covariance * (1 - diagonal)).mean()
    covariance = covariance + shrink * (torch.clamp(variance, min=1e-6) * diagonal + rest * (1 - diagonal))
    scale = covariance.diagonal().rsqrt()
    return scale[:, None] * covariance * scale + 1e-3 * diagonal


class SmallResNet(nn.Module):
    """A residual network with batch normalisation and stride 2: pixels of 0..255, N x C x H x W, to N x 64."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(shape[0], 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
        )
        self.shortcut = nn.Conv2d(32, 64, 1, stride=2, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalisation is the network's own business: pixels come as they are."""
        x = self.first(images.float() / 127.5 - 1)
        return (self.block(x) + self.shortcut(x)).relu().mean((2, 3))


def waves() -> Dataset:
    """Six kinds of waves, 12 x 12 pixels, from NumPy arrays: 30 training and 20 test images of each."""
    random = np.random.default_rng(0)
    down, across = np.mgrid[:12, :12] / 12

    def image_set(count: int) -> ImageSet:
        labels = np.repeat(np.arange(6), count)
        angle, phase = labels * np.pi / 6, random.uniform(0, 2 * np.pi, len(labels))
        along = np.cos(angle)[:, None, None] * across + np.sin(angle)[:, None, None] * down
        images = 127.5 + 80 * np.sin(12 * along + phase[:, None, None]) + random.normal(0, 20, (len(labels), 12, 12))
        pixels = torch.from_numpy(images.clip(0, 255).astype(np.uint8))[:, None]
        return ImageSet(pixels, torch.from_numpy(labels), tuple(f"{30 * kind} degrees" for kind in range(6)))

    return Dataset("waves", image_set(30), image_set(20))
