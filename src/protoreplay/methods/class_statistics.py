"""What is kept of a class in the space of a frozen body's features: its mean, and how its images vary around it."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Spread = Literal["none", "class", "shared"]
"""What is kept beside the means: nothing, the variances of every class, or one covariance that all classes share."""


@dataclass(frozen=True)
class ClassStatistics:
    """Statistics of the features of every (task, class) pair, one row a pair.

    Attributes:
        mean: K x D.
        variance: K x D; K x 0 unless every class has variances of its own.
        triangle: the sum of the pairs' covariances, each D x D, packed: as `D (D + 1) / 2` numbers, since a symmetric
            matrix says everything twice; no numbers unless classes share a covariance.
        tasks: int64, K: the position of the task that brought the pair.
        classes: int64, K.
    """

    mean: Tensor
    variance: Tensor
    triangle: Tensor
    tasks: Tensor
    classes: Tensor

    @classmethod
    def none(cls, width: int, spread: Spread, device: torch.device) -> "ClassStatistics":
        """Of no class yet, for features of `width` dimensions."""
        nothing = torch.zeros(0, dtype=torch.int64)
        numbers = width * (width + 1) // 2 if spread == "shared" else 0
        return cls(
            torch.zeros(0, width, device=device),
            torch.zeros(0, width if spread == "class" else 0, device=device),
            torch.zeros(numbers, device=device),
            nothing,
            nothing,
        )

    def __len__(self) -> int:
        return len(self.classes)

    def plus(self, features: Tensor, weight: Tensor, task: int, label: int) -> "ClassStatistics":
        """With those of one more class: its features, N x D, each of which counts `weight`, N, with the sum 1."""
        mean = weight @ features
        apart = features - mean
        variance, triangle = self.variance, self.triangle
        if variance.shape[1]:
            variance = torch.cat([variance, (weight @ apart.square())[None]])
        else:
            variance = variance.new_zeros(len(self) + 1, 0)
        if len(triangle):
            triangle = triangle + packed((apart * weight[:, None]).T @ apart)
        return ClassStatistics(
            torch.cat([self.mean, mean[None]]),
            variance,
            triangle,
            torch.cat([self.tasks, torch.tensor([task])]),
            torch.cat([self.classes, torch.tensor([label])]),
        )

    def first(self, count: int) -> "ClassStatistics":
        """Those of the first pairs; what classes share is that of all."""
        return replace(
            self,
            mean=self.mean[:count],
            variance=self.variance[:count],
            tasks=self.tasks[:count],
            classes=self.classes[:count],
        )

    def deviations(self) -> Tensor:
        """What turns standard normal numbers into differences from the means.

        Returns:
            Standard deviations, K x 1 x D, or a root of the shared covariance, D x D.
        """
        if len(self.triangle):
            values, vectors = torch.linalg.eigh((unpacked(self.triangle) / len(self)).double())
            root: Tensor = vectors * values.clamp(min=0).sqrt()
            return root.to(self.mean.dtype)
        return self.variance.sqrt()[:, None]

    def samples(self, deviations: Tensor, noise: Tensor) -> Tensor:
        """Samples of every pair's features.

        Args:
            deviations: of these statistics.
            noise: standard normal numbers, K x N x D.

        Returns:
            K x N x D.
        """
        spread = noise @ deviations.T if deviations.ndim == 2 else noise * deviations[: len(self)]
        return self.mean[:, None] + spread


def packed(symmetric: Tensor) -> Tensor:
    """The lower triangle of a symmetric matrix, D x D, row by row: D (D + 1) / 2 numbers."""
    rows, columns = torch.tril_indices(*symmetric.shape, device=symmetric.device)
    return symmetric[rows, columns]


def unpacked(triangle: Tensor) -> Tensor:
    """The symmetric matrix, D x D, whose lower triangle was packed.

    Examples:
        >>> unpacked(packed(torch.tensor([[1.0, 2.0], [2.0, 3.0]])))
        tensor([[1., 2.],
                [2., 3.]])
    """
    side = int((8 * len(triangle) + 1) ** 0.5) // 2
    rows, columns = torch.tril_indices(side, side, device=triangle.device)
    matrix = triangle.new_zeros(side, side)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix
