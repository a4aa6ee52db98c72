"""What methods with a linear head share: the network, its training by cross-entropy, its answers."""

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.augmentation import augment
from protoreplay.encoders import Network
from protoreplay.methods.base import EncoderSettings, Method, Problem, Report, prefixed, under
from protoreplay.methods.batches import batches, steps_per_epoch

E = TypeVar("E", bound=EncoderSettings)


class LinearMethod(Method[E]):
    """The encoder with one output per class of the data set; outputs of classes not seen take no part in anything."""

    def __init__(self, config: E, problem: Problem) -> None:
        """A fresh network."""
        super().__init__(config, problem)
        self.network = self.fresh_network()

    def fresh_network(self) -> Network:
        """The network of this seed before any training."""
        problem = self.problem
        network = Network(self.config.encoder, problem.image_shape, problem.num_classes, self.initial_weights())
        return network.to(self.device)

    def scores(self, images: Tensor) -> Tensor:
        """Scores of the classes seen, N x len(classes)."""
        scores: Tensor = self.network(images)
        return scores[:, list(self.classes)]

    def fit(
        self,
        images: Tensor,
        labels: Tensor,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        report: Report,
    ) -> None:
        """Train by cross-entropy over the classes seen on images (uint8, N x C x H x W) and labels (int64, N)."""
        images = images.to(self.device)
        targets = torch.searchsorted(torch.tensor(self.classes), labels).to(self.device)
        steps = self.config.epochs * steps_per_epoch(len(labels), self.config)
        for step, index in enumerate(batches(len(labels), self.config, generator), start=1):
            batch = augment(images[index], self.config, generator)
            loss = functional.cross_entropy(self.scores(batch), targets[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(step, steps, loss.item())

    def probabilities(self, images: Tensor) -> Tensor:
        """Softmax over the classes seen."""
        return self.scores(images).softmax(1)

    def tensors(self) -> dict[str, Tensor]:
        """The network."""
        return prefixed("network", self.network.state_dict())

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        self.network.load_state_dict(under("network", tensors))
