"""The floor: the nearest class mean of raw pixels, with nothing trained."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from protoreplay.methods.base import Method, Problem, Report, silent
from protoreplay.protocols import Task
from protoreplay.prototypes import class_probabilities, squared_distances
from protoreplay.settings import Settings


class NearestMeanConfig(Settings):
    """There is nothing to set."""


class NearestMean(Method[NearestMeanConfig]):
    """One mean image for every class of every task."""

    Config = NearestMeanConfig
    summary = "nearest class mean of raw pixels, untrained: the floor"

    def __init__(self, config: NearestMeanConfig, problem: Problem) -> None:
        """No means yet."""
        super().__init__(config, problem)
        self.means = torch.zeros(0, math.prod(problem.image_shape), device=self.device)
        self.owners = torch.zeros(0, dtype=torch.int64, device=self.device)

    def learn(self, task: Task, report: Report = silent) -> None:
        """Average the images of each class."""
        pixels = _pixels(task.images.to(self.device))
        means = [pixels[(task.labels == label).to(self.device)].mean(0) for label in task.classes]
        self.means = torch.cat([self.means, torch.stack(means)])
        self.owners = torch.cat([self.owners, torch.tensor(task.classes, device=self.device)])
        self.see(task)

    def probabilities(self, images: Tensor) -> Tensor:
        """Softmax of the negative distances."""
        nearest = (-squared_distances(_pixels(images), self.means).sqrt()).softmax(1)
        return class_probabilities(nearest, self.owners, torch.tensor(self.classes, device=self.device))

    def tensors(self) -> dict[str, Tensor]:
        """The means and the class of each."""
        return {"prototypes.mean": self.means, "prototypes.classes": self.owners}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        self.means = tensors["prototypes.mean"].to(self.device)
        self.owners = tensors["prototypes.classes"].to(self.device)


def _pixels(images: Tensor) -> Tensor:
    return images.flatten(1).to(torch.float32) / 255
