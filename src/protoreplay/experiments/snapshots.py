"""What a run keeps for analyses (`--keep-prototypes`), so that they never train: one small file a task."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular, write_whole
from protoreplay.experiments.checkpoint import require_unbroken, seal_of, sealed
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.methods.base import Method
from protoreplay.streams.stream import Stream

MAPPED, MAPPED_PER_CLASS = 1_000, 100
"""Images whose latent means are kept after some tasks, at most: of all classes together, and of each."""
MAPPED_AFTER = (1, 3)
"""After these tasks, and after the last."""
ANSWERS = 20_000
"""Answers that are kept after a task, at most."""

MOST_BYTES = 2**28
"""Of the file of a task."""

ImagesOfTask = Callable[[int], tuple[Tensor, Tensor]]
"""From the position of a task to what a method's `embed` makes of some of its images, N x ..., and their labels, N."""


@dataclass(frozen=True)
class PrototypeSnapshot:
    """What was kept after one task.

    Attributes:
        mean: of the prototypes in latent space, K x D.
        variance: of each of their dimensions, K x D.
        classes: K.
        tested: the task that each answer is about, N.
        labels: the right answers, N.
        predicted: the answers, N.
        confidence: the probability of each answer, N.
        images: latent means of test images, M x D; without rows where they were not kept.
        image_labels: M.
        shots: latent means of training images of all classes seen, S x D; without rows where they were not kept.
        shot_labels: S.
    """

    mean: NDArray[np.float32]
    variance: NDArray[np.float32]
    classes: NDArray[np.int64]
    tested: NDArray[np.int64]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    confidence: NDArray[np.float32]
    images: NDArray[np.float32]
    image_labels: NDArray[np.int64]
    shots: NDArray[np.float32]
    shot_labels: NDArray[np.int64]


def load_snapshots(folder: RunFolder) -> list[PrototypeSnapshot]:
    """The snapshots of a finished run, task after task; a `UserError` where it has none or they are damaged."""
    snapshots = []
    for path in (_file(folder, task) for task in range(1, folder.config().tasks + 1)):
        try:
            content = read_regular(path, MOST_BYTES)
            arrays = safetensors.numpy.load(content)
            if seal := seal_of(content):  # files of before they were sealed have none
                require_unbroken(arrays, seal)
            snapshots.append(_checked(PrototypeSnapshot(**arrays)))
        except FileNotFoundError:
            raise UserError(f"{folder.path} kept no prototypes: do the run again with --keep-prototypes") from None
        except (safetensors.SafetensorError, TypeError, ValueError, KeyError, AttributeError):
            raise UserError(f"{path} is damaged: do the run again with --keep-prototypes") from None
    return snapshots


_DIMENSIONS = {
    "prototypes": {"mean": ("float32", 2), "variance": ("float32", 2), "classes": ("int64", 1)},
    "answers": {
        "tested": ("int64", 1),
        "labels": ("int64", 1),
        "predicted": ("int64", 1),
        "confidence": ("float32", 1),
    },
    "images": {"images": ("float32", 2), "image_labels": ("int64", 1)},
    "shots": {"shots": ("float32", 2), "shot_labels": ("int64", 1)},
}
"""Of arrays that have a row for each of the same things, the kind of number and how many dimensions they have."""


def _checked(snapshot: PrototypeSnapshot) -> PrototypeSnapshot:
    """The same; a `ValueError` where its arrays do not go together."""
    for group in _DIMENSIONS.values():
        arrays = {name: getattr(snapshot, name) for name in group}
        if len({len(array) for array in arrays.values()}) != 1:
            raise ValueError("lengths")
        if any((str(array.dtype), array.ndim) != group[name] for name, array in arrays.items()):
            raise ValueError("kinds of numbers")
        if any(array.dtype == np.int64 and len(array) and array.min() < 0 for array in arrays.values()):
            raise ValueError("labels below 0")
    widths = {array.shape[1] for array in (snapshot.mean, snapshot.variance, snapshot.images, snapshot.shots)}
    if len(widths) != 1 or len(set(snapshot.classes.tolist())) != len(snapshot.classes):
        raise ValueError("widths")
    return snapshot


def has_snapshots(folder: RunFolder) -> bool:
    """Whether a run kept its prototypes after the first task."""
    return _file(folder, 1).exists()


def _file(folder: RunFolder, task: int) -> Path:
    return folder.prototypes / f"task-{task:03}.safetensors"


class SnapshotWriter:
    """Collects the answers of a test, and writes the snapshot after each task."""

    def __init__(self, folder: RunFolder, stream: Stream) -> None:
        self._folder, self._stream = folder, stream
        self._answers: list[tuple[int, Tensor, Tensor]] = []

    def whole(self, done: int) -> bool:
        """Whether the snapshots of the first `done` tasks are there."""
        return all(_file(self._folder, task).exists() for task in range(1, done + 1))

    def require_all(self) -> None:
        """A `UserError` if a finished run lacks snapshots: a finished run is never done twice."""
        if not self.whole(len(self._stream)):
            raise UserError(f"{self._folder.path} is finished and kept no prototypes: choose another --out")

    def add_answers(self, tested: int, probabilities: Tensor, labels: Tensor) -> None:
        """As `run.AnswerCallback`."""
        self._answers.append((tested, probabilities, labels))

    @torch.no_grad()
    def write(self, method: Method[Any], test_set: ImagesOfTask, trained: int) -> None:
        """Write the snapshot after the task `trained`, and forget its answers.

        Args:
            method: with a `latent`.
            test_set: gives what `method.embed` makes of the test images of a task, N x ..., and their labels, N.
            trained: the last task learned.
        """
        latent = method.latent()
        assert latent is not None, "only methods that have one keep it"

        def learned(position: int) -> tuple[Tensor, Tensor]:
            task = self._stream.task(position)
            return method.embed(task.images), task.labels

        def means(source: ImagesOfTask) -> tuple[Tensor, Tensor]:
            parts = self._mapped(source, trained) if trained in (*MAPPED_AFTER, len(self._stream)) else []
            found = [latent.means(features.to(method.device)).float().cpu() for features, _ in parts]
            none = torch.zeros(0, latent.mean.shape[1]), torch.zeros(0, dtype=torch.int64)
            return torch.cat([none[0], *found]), torch.cat([none[1], *(labels for _, labels in parts)])

        images, image_labels = means(test_set)
        shots, shot_labels = means(learned)
        tensors = {
            "mean": latent.mean.float().cpu(),
            "variance": latent.variance.float().cpu(),
            "classes": latent.classes.cpu(),
            **self._chosen_answers(torch.tensor(method.classes)),
            "images": images,
            "image_labels": image_labels,
            "shots": shots,
            "shot_labels": shot_labels,
        }
        self._folder.prototypes.mkdir(exist_ok=True)
        content = sealed({name: tensor.contiguous() for name, tensor in tensors.items()}, {})
        write_whole(_file(self._folder, trained), content)

    def _chosen_answers(self, classes: Tensor) -> dict[str, Tensor]:
        """Evenly chosen answers."""
        share = max(1, ANSWERS // len(self._answers))
        parts = []
        for tested, probabilities, labels in self._answers:
            rows = _evenly(len(labels), share)
            confidence, place = probabilities[rows].max(1)
            parts.append((torch.full_like(labels[rows], tested), labels[rows], classes[place], confidence.float()))
        self._answers = []
        names = ("tested", "labels", "predicted", "confidence")
        return dict(zip(names, map(torch.cat, zip(*parts, strict=True)), strict=True))

    def _mapped(self, source: ImagesOfTask, trained: int) -> list[tuple[Tensor, Tensor]]:
        """A few images of each class seen, always the same, from the task that first brings it."""
        share = max(1, min(MAPPED_PER_CLASS, MAPPED // self._stream.known_classes()[-1]))
        seen, parts = set[int](), list[tuple[Tensor, Tensor]]()
        for position, plan in enumerate(self._stream.plans[:trained], start=1):
            if new := [label for label in plan.classes if label not in seen]:
                features, labels = source(position)
                for label in new:
                    rows = (labels == label).nonzero().flatten()
                    rows = rows[_evenly(len(rows), share)]
                    parts.append((features[rows], labels[rows]))
            seen.update(plan.classes)
        return parts


def _evenly(count: int, most: int) -> Tensor:
    """At most `most` of the first `count` numbers, evenly spaced: int64."""
    return torch.arange(count) if count <= most else torch.arange(most) * count // most
