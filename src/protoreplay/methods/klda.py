"""KLDA and RanDumb: linear discriminant analysis on random Fourier features, which stand for a Gaussian kernel.

Momeni, Mazumder and Liu 2025, "Continual Learning Using a Kernel-Based Method Over Foundation Models" (AAAI); Prabhu,
Sinha, Kumaraguru, Torr, Sener and Dokania 2024, "RanDumb: Random Representations Outperform Online Continually Learned
Representations" (NeurIPS), which does it on raw pixels.

    h(x) = sqrt(2 / E) cos(sqrt(2 gamma) f(x) W + b),    W Gaussian, b uniform in 0 .. 2 pi

so that h(x) . h(z) is about exp(-gamma |f(x) - f(z)|^2). Among the h, a mean for every class and one covariance S for
all of them; the score of a class is -1/2 (h - m_c)^T S^-1 (h - m_c).
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier, MethodContext
from protoreplay.methods.factors import TriangularFactor, ridge_solve
from protoreplay.methods.fixed_features import FixedFeatureMethod
from protoreplay.methods.random_regression import ExpansionSettings
from protoreplay.prototypes.gaussians import ClassMeans, class_probabilities
from protoreplay.streams.stream import Task


class KLDAConfig(ExpansionSettings):
    """Settings of KLDA."""

    expansion: int = Field(5000, ge=1)
    """Number of random Fourier features (Momeni et al. 2025: 5,000; Prabhu et al. 2024: 25,000)."""
    gamma: Annotated[float, Field(gt=0)] | Literal["scale"] = "scale"
    """The kernel is exp(-gamma |x - z|^2); with `scale`, gamma is one over the number of features times their variance
    (the code of Prabhu et al. 2024), here that of the first task's images."""
    shrinkage: Annotated[float, Field(ge=0, le=1)] | Literal["oas"] = "oas"
    """The covariance is `(1 - shrinkage)` times the observed one plus `shrinkage` times its mean eigenvalue times the
    identity, or `oas`: by the formula of Chen et al. 2010 (the code of Prabhu et al. 2024). With 0 the pseudo-inverse
    is used (Momeni et al. 2025), which ignores directions without within-class variance."""


class FourierFeatures(NamedTuple):
    """Frequencies, D x E, standard normal; phases, E; and gamma, a number."""

    frequencies: Tensor
    phases: Tensor
    gamma: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """N x D to N x E."""
        angle = torch.addmm(self.phases, features, self.frequencies, alpha=math.sqrt(2 * float(self.gamma)))
        return angle.cos_().mul_(math.sqrt(2 / len(self.phases)))


class KernelScatter(NamedTuple):
    """A factor of the sum of products of differences from class means, and the number of images in it, int64."""

    factor: TriangularFactor
    images: Tensor


class KLDA(FixedFeatureMethod[KLDAConfig]):
    """A mean for every class of every task, and the scatter of all images around their means, in the kernel's space."""

    Config = KLDAConfig
    summary = "KLDA: linear discriminant on random Fourier features, on frozen features"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "gamma": ("scale", 0.01, 0.1, 1.0, 10.0),
        "shrinkage": ("oas", 1e-2, 0.1, 0.5),
    }
    keeps_means = False

    def __init__(self, config: KLDAConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        random, width = self.generator("fourier"), config.expansion
        frequencies = torch.randn(self.width, width, generator=random).to(self.device)
        phases = (2 * math.pi * torch.rand(width, generator=random)).to(self.device)
        gamma = torch.tensor(0.0 if config.gamma == "scale" else config.gamma, dtype=torch.float64)
        self.fourier = self.carry("fourier", FourierFeatures(frequencies, phases, gamma))
        self.means = self.carry("means", ClassMeans.none(width, self.device))
        nothing = KernelScatter(TriangularFactor.none(self.device), torch.zeros((), dtype=torch.int64))
        self.scatter = self.carry("scatter", nothing)

    @property
    def deterministic(self) -> bool:
        """Frequencies are drawn from the seed."""
        return False

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Add the means of the task's classes and the scatter around them."""
        features = self.embed(task.images)
        if not float(self.fourier.gamma):
            self.fourier = self.fourier._replace(gamma=scale_gamma(features))
        means, apart = [], []
        for own in self.by_class(task, features):
            rows = self.fourier(own)
            means.append(rows.mean(0))
            apart.append(rows - means[-1])
        self.means = self.means.plus(torch.stack(means), task.classes)
        factor, images = self.scatter
        for rows in apart if len(features) > self.config.expansion else [torch.cat(apart)]:
            factor = factor.plus(rows)
        self.scatter = KernelScatter(factor, images + len(task.labels))

    def discriminants(self) -> Tensor:
        """Each mean, seen from the centre of all, times the inverse of the shrunk covariance: K x E, float64."""
        trapezoid, images = self.scatter.factor.dense(self.config.expansion), int(self.scatter.images)
        apart = (self.means.mean - self.means.mean.mean(0)).double().T
        level = float(trapezoid.square().sum()) / (images * len(apart))
        if level == 0:  # of images that do not vary at all, every direction counts alike
            return apart.T
        shrinkage = self.config.shrinkage
        if shrinkage == "oas":
            shrinkage = oas_shrinkage(trapezoid, images)
        if shrinkage == 0:
            return images * pseudo_solve(trapezoid, apart).T
        if shrinkage == 1:
            return apart.T / level
        ridge = shrinkage * level * images / (1 - shrinkage)
        return images / (1 - shrinkage) * ridge_solve(trapezoid, ridge, apart).T

    def _classifier(self) -> BatchClassifier:
        """The likeliest mean's class."""
        classes, means = torch.tensor(self.classes, device=self.device), self.means
        centre, directions = means.mean.mean(0), self.discriminants()
        offsets = ((means.mean - centre).double() * directions).sum(1) / 2
        weights, offsets = directions.to(torch.float32), offsets.to(torch.float32)

        def read(features: Tensor) -> Tensor:
            # Seen from the centre, so that rounding does not grow with what all images have in common.
            scores = (self.fourier(features) - centre) @ weights.T - offsets
            return class_probabilities(scores.softmax(1), means.classes, classes)

        return read


def scale_gamma(features: Tensor) -> Tensor:
    """One over the number of features times the variance of all their values; 1 where they do not vary."""
    spread = features.shape[1] * features.double().var(correction=0)
    return torch.where(spread > 0, 1 / spread, 1.0).cpu()


def oas_shrinkage(trapezoid: Tensor, images: int) -> float:
    """The oracle approximating shrinkage of the covariance `R^T R / images` (Chen et al. 2010), from 0 to 1.

    Args:
        trapezoid: R, r x D.
        images: how many rows R was made of.
    """
    width = trapezoid.shape[1]
    # The covariance has the same squared numbers, in sum, as this smaller matrix.
    squared = float((trapezoid @ trapezoid.T / images).square().sum()) / width**2
    level = float(trapezoid.square().sum()) / (images * width)
    rest = (images + 1) * (squared - level**2 / width)
    return min(1.0, (squared + level**2) / rest) if rest > 0 else 1.0


def pseudo_solve(trapezoid: Tensor, right: Tensor) -> Tensor:
    """The pseudo-inverse of `R^T R` times `right`, D x K."""
    values, vectors = torch.linalg.eigh(trapezoid @ trapezoid.T)
    large = values > 1e-10 * values[-1]  # rows of single precision leave smaller ones where there are none
    directions = trapezoid.T @ (vectors[:, large] / values[large])
    solved: Tensor = directions @ (directions.T @ right)
    return solved
