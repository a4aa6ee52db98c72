"""The engine that replays all past tasks in one optimiser step: on the mean of their losses.

Every image is encoded once a step. Past tasks are taken in groups: the prototypes stored after each stand side by side,
so that all distances of a group are one computation, and the softmax of each task runs over the columns of its own. The
gradient is collected group by group, so that memory is needed for only one at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.encoders.network import as_gaussian
from protoreplay.methods.past_task import PastTask
from protoreplay.prototypes.distances import Landmarks, moments
from protoreplay.prototypes.gaussians import Gaussian

DISTANCES_AT_ONCE = 2**19
"""Past tasks are computed at once up to this many distances: enough to fill the processor, little memory."""

Distances = Callable[[Tensor, torch.Generator], Tensor]
"""From encoded images, N x 2 D, and random numbers to their squared distances to all prototypes, Z x N x K."""

RecallDistances = Callable[[Gaussian, Gaussian, Tensor | None, torch.Generator, Tensor | None], Tensor]
"""The same of images, N x D, and prototypes, K x D, with their weight and the rows of noise that prototypes share."""


class ReplayEncoding(ABC):
    """What replayed images are to the loss, N x 2 D, and how far that is from prototypes."""

    @abstractmethod
    def encode(self, outputs: Tensor) -> Tensor:
        """Of a network's outputs, N x 2 D, as many numbers."""

    @abstractmethod
    def distances(self, prototypes: Gaussian, weight: Tensor | None, noise_rows: Tensor | None) -> Distances:
        """To prototypes, K x D; what does not change from step to step is computed here, once.

        Prototypes with the same number of `noise_rows`, int64, K, share their noise.
        """


class OutputEncoding(ReplayEncoding):
    """The outputs as they are; distances are those of `recall_distances`."""

    def __init__(self, recall_distances: RecallDistances) -> None:
        self.recall_distances = recall_distances

    def encode(self, outputs: Tensor) -> Tensor:
        """The outputs themselves, N x 2 D: samples are drawn from them."""
        return outputs

    def distances(self, prototypes: Gaussian, weight: Tensor | None, noise_rows: Tensor | None) -> Distances:
        """Those of the Gaussians that the outputs are."""
        return lambda outputs, random: self.recall_distances(
            Gaussian(*as_gaussian(outputs)), prototypes, weight, random, noise_rows
        )


class MomentEncoding(ReplayEncoding):
    """Moments from a centre, D, in which expected squared distances are linear: no samples, one matrix product."""

    def __init__(self, centre: Tensor) -> None:
        self.centre = centre

    def encode(self, outputs: Tensor) -> Tensor:
        """The moments of the Gaussians that the outputs are."""
        return moments(Gaussian(*as_gaussian(outputs)), self.centre)

    def distances(self, prototypes: Gaussian, weight: Tensor | None, noise_rows: Tensor | None) -> Distances:
        """In closed form, 1 x N x K."""
        landmarks = Landmarks.of(prototypes, self.centre, weight)
        return lambda encoded, random: landmarks.squared_distances(encoded)[None]


@dataclass(frozen=True)
class TaskwiseCrossEntropy:
    """The cross-entropies of several tasks, each among its own prototypes, whose scores stand side by side.

    Attributes:
        columns: int64, T x W: the prototypes of each task, and K, one beyond the last, to fill up.
        targets: int64, T x N: the place of each image's own prototype in the task's row of `columns`.
        shares: T x N, of each task and image in the loss; 0 where the task did not know the image.
    """

    columns: Tensor
    targets: Tensor
    shares: Tensor

    @classmethod
    def of(cls, tasks: list[PastTask], in_step: int) -> Self:
        """Of these tasks out of all `in_step` whose mean is the loss of a step."""
        device, most = tasks[0].targets.device, max(len(task.targets) for task in tasks)
        sizes = [len(task.prototypes.mean) for task in tasks]
        firsts = accumulate(sizes[:-1], initial=0)
        columns = torch.full((len(tasks), max(sizes)), sum(sizes), device=device)
        targets = torch.zeros(len(tasks), most, dtype=torch.int64, device=device)
        shares = torch.zeros(len(tasks), most, device=device)
        for row, (task, size, first) in enumerate(zip(tasks, sizes, firsts, strict=True)):
            known = len(task.targets)
            columns[row, :size] = torch.arange(first, first + size)
            targets[row, :known] = task.targets
            shares[row, :known] = torch.tensor(1 / known) / in_step
        return cls(columns, targets, shares)

    def __call__(self, scores: Tensor) -> Tensor:
        """The sum of all cross-entropies' shares, of scores Z x N x K, averaged over Z."""
        samples = len(scores)
        if len(self.columns) == 1:
            loss = functional.cross_entropy(scores.flatten(0, 1), self.targets[0].repeat(samples))
            return loss * self.shares.sum()
        # One row a prototype: a task is then a number of whole rows, and the softmax runs along them.
        rows = functional.pad(scores.flatten(0, 1).T, (0, 0, 0, 1), value=-torch.inf)
        rows = rows.index_select(0, self.columns.flatten()).unflatten(0, self.columns.shape)
        own = rows.log_softmax(1).gather(1, self.targets.repeat(1, samples)[:, None])
        shares = self.shares.repeat(1, samples) / samples
        return -torch.dot(own.flatten(), shares.flatten())


@dataclass(frozen=True)
class TaskGroup:
    """Past tasks that are computed at once.

    Attributes:
        images: how many of the memory's images any of them knew: the first so many.
        distances: of encoded images to the prototypes of all of them.
        loss: their share in the loss of a step, of scores.
    """

    images: int
    distances: Distances
    loss: TaskwiseCrossEntropy

    @classmethod
    def of(cls, tasks: list[PastTask], in_step: int, encoding: ReplayEncoding) -> Self:
        """Of these tasks out of all `in_step`."""
        stored = [task.prototypes for task in tasks]
        together = Gaussian(torch.cat([one.mean for one in stored]), torch.cat([one.logvar for one in stored]))
        weights = [task.weight for task in tasks if task.weight is not None]
        # Each set of prototypes begins with the set of the task before: a class has one place in all of them.
        places = torch.cat([torch.arange(len(one.mean), device=one.mean.device) for one in stored])
        distances = encoding.distances(
            together, torch.cat(weights) if weights else None, places if len(tasks) > 1 else None
        )
        return cls(max(len(task.targets) for task in tasks), distances, TaskwiseCrossEntropy.of(tasks, in_step))


class FusedReplay:
    """Replay of all of `tasks`, of which there is at least one, at once.

    Args:
        tasks: in the order of replay.
        encoding: what images are to the loss.
        scores: of squared distances, of any shape.
        samples: Z, of distances between samples, else 1.
    """

    def __init__(
        self, tasks: list[PastTask], encoding: ReplayEncoding, scores: Callable[[Tensor], Tensor], samples: int
    ) -> None:
        self.encoding, self.scores = encoding, scores
        self.images = max((task.images for task in tasks), key=len)
        self.groups = [
            TaskGroup.of(group, len(tasks), encoding) for group in _grouped(tasks, samples * len(self.images))
        ]

    def backward(self, outputs: Tensor, random: torch.Generator) -> Tensor:
        """Add to the gradients of all weights that of the loss of the images' outputs, N x 2 D; returns the loss."""
        encoded = self.encoding.encode(outputs)
        gradient, total = torch.zeros_like(encoded), encoded.new_zeros(())
        for group in self.groups:
            part = encoded.detach()[: group.images].requires_grad_()
            loss = group.loss(self.scores(group.distances(part, random)))
            gradient[: group.images] += torch.autograd.grad(loss, part)[0]
            total += loss.detach()
        encoded.backward(gradient)
        return total


def _grouped(tasks: list[PastTask], per_prototype: int) -> Iterator[list[PastTask]]:
    """Consecutive tasks with up to `DISTANCES_AT_ONCE` distances, `per_prototype` each; one task at least."""
    group: list[PastTask] = []
    size = 0
    for task in tasks:
        more = per_prototype * len(task.prototypes.mean)
        if group and size + more > DISTANCES_AT_ONCE:
            yield group
            group, size = [], 0
        group.append(task)
        size += more
    yield group
