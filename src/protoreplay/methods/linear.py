"""What methods with a linear head share: the network, its training by cross-entropy, its answers."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.encoders.network import Network
from protoreplay.methods.augmentation import augment
from protoreplay.methods.base import AdamSettings, BatchClassifier, EncoderSettings, Method, MethodContext
from protoreplay.methods.batches import batches, steps_per_task
from protoreplay.methods.optimizers import adam, descend
from protoreplay.streams.stream import Task

E = TypeVar("E", bound=EncoderSettings)
A = TypeVar("A", bound=AdamSettings)

Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of a batch of images and its targets (int64, N: columns of `scores`)."""

Step = Callable[[torch.optim.Optimizer, Tensor], float]
"""Changes the weights so that the loss falls; returns the loss to report."""


class LinearMethod(Method[E]):
    """The encoder with one output per class of the data set; outputs of classes not seen take no part in anything."""

    def __init__(self, config: E, context: MethodContext) -> None:
        super().__init__(config, context)
        self.network = self.carry("network", self.fresh_network())

    def fresh_network(self) -> Network:
        """The network of this seed before any training."""
        return self.new_network(self.config, self.context.num_classes)

    def scores(self, images: Tensor) -> Tensor:
        """Scores of the classes seen, N x len(classes)."""
        scores: Tensor = self.network(images)
        return scores[:, list(self.classes)]

    def targets(self, labels: Tensor) -> Tensor:
        """The columns of `scores` (int64, N) of labels (int64, N)."""
        return torch.searchsorted(torch.tensor(self.classes), labels).to(self.device)

    def cross_entropy(self, images: Tensor, targets: Tensor) -> Tensor:
        """The plain `Loss`: cross-entropy over the classes seen."""
        return functional.cross_entropy(self.scores(images), targets)

    def fit(
        self,
        task: Task,
        optimizer: torch.optim.Optimizer,
        on_step: StepCallback,
        *,
        loss: Loss | None = None,
        step: Step = descend,
    ) -> None:
        """Train on the task's images, whose classes have all been seen; by default by cross-entropy."""
        loss = loss or self.cross_entropy
        random = self.generator("learn", task.position)
        images, targets = task.images.to(self.device), self.targets(task.labels)
        steps = steps_per_task(len(targets), self.config)
        with self.network.training_mode():
            for number, index in enumerate(batches(len(targets), self.config, random), start=1):
                batch = augment(images[index], self.config, random)
                on_step(number, steps, step(optimizer, loss(batch, targets[index])))

    def _classifier(self) -> BatchClassifier:
        """Softmax over the classes seen."""
        return lambda images: self.scores(images).softmax(1)


class AdamMethod(LinearMethod[A]):
    """A linear head trained with one Adam, whose moments go on from task to task."""

    def __init__(self, config: A, context: MethodContext) -> None:
        super().__init__(config, context)
        self.optimizer = self.carry("optimizer", adam(self.network, config.lr))
