"""Tasks in order, each with its test images."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.data.images import ImageSet
from protoreplay.streams.domains import blurred, rotated

if TYPE_CHECKING:
    from protoreplay.streams.protocols import Protocol


@dataclass(frozen=True)
class Task:
    """What a method is given to learn.

    Attributes:
        position: place in the stream, from 1.
        classes: the classes it brings, ascending.
        images: uint8, N x C x H x W.
        labels: int64, N.
    """

    position: int
    classes: tuple[int, ...]
    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        present = tuple(self.labels.unique().tolist())
        if present != self.classes:
            raise ValueError(f"task {self.position} has images of classes {present}, not {self.classes}")


@dataclass(frozen=True)
class TaskPlan:
    """One task as ascending indices into the stream's image sets (int64 vectors), and what is done to its images.

    Attributes:
        classes: the classes it brings, ascending.
        train: the training images.
        test: the test images.
        pixels: the order of the pixels.
        degrees: by how much images are turned.
        blur: standard deviation in pixels of the blur.
    """

    classes: tuple[int, ...]
    train: Tensor
    test: Tensor
    pixels: Tensor | None = None
    degrees: float = 0.0
    blur: float = 0.0

    @property
    def change_key(self) -> str:
        """What tells this change from others; empty where images stay as they are."""
        if self.pixels is None and not self.degrees and not self.blur:
            return ""
        order = b"" if self.pixels is None else self.pixels.numpy().tobytes()
        return f"{hashlib.sha256(order).hexdigest()} {self.degrees} {self.blur}"

    def change(self, images: Tensor) -> Tensor:
        """The images as the task has them, uint8, N x C x H x W."""
        if self.pixels is not None:
            images = images.flatten(2)[:, :, self.pixels].view_as(images)
        return blurred(rotated(images, self.degrees), self.blur)


@dataclass(frozen=True)
class Stream:
    """Tasks in order, each with its test images; images are gathered when asked for, never copied ahead.

    Attributes:
        train: where training images come from.
        test: where test images come from.
        plans: the tasks.
        image_size: height and width to which images are brought.
        protocol: which made it.
    """

    train: ImageSet
    test: ImageSet
    plans: tuple[TaskPlan, ...]
    image_size: int
    protocol: "Protocol"

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return self.train.images.shape[1], self.image_size, self.image_size

    @property
    def features(self) -> bool:
        """Whether what it calls images are features, float32, D x 1 x 1."""
        return False

    @property
    def num_classes(self) -> int:
        """Number of classes of the data set, whether or not the stream brings them all."""
        return len(self.train.class_names)

    def known_classes(self) -> list[int]:
        """After each task, how many classes have been seen."""
        seen: set[int] = set()
        return [len(seen := seen | {*plan.classes}) for plan in self.plans]

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Task]:
        return (self.task(position) for position in range(1, len(self) + 1))

    def task(self, position: int) -> Task:
        """The training data of the task at `position` (from 1)."""
        plan = self.plans[position - 1]
        return Task(position, plan.classes, *self._gather(self.train, plan.train, plan))

    def test_set(self, position: int) -> tuple[Tensor, Tensor]:
        """Images (uint8, N x C x H x W) and labels (int64, N) on which the task at `position` is tested."""
        plan = self.plans[position - 1]
        return self._gather(self.test, plan.test, plan)

    def shots(self) -> list[dict[str, Any]]:
        """The draw, ready for JSON: each task's classes, indices into the training set, change, and a digest.

        The digest is the SHA-256 of the task's images as they are learned: with it, a draw is known to be repeated.
        """
        return [
            {
                "task": position,
                "classes": list(plan.classes),
                "train": plan.train.tolist(),
                "pixels": None if plan.pixels is None else plan.pixels.tolist(),
                **{key: getattr(plan, key) for key in ("degrees", "blur") if getattr(plan, key)},
                "sha256": hashlib.sha256(self._learned_images(plan).contiguous().numpy().data).hexdigest(),
            }
            for position, plan in enumerate(self.plans, start=1)
        ]

    def _learned_images(self, plan: TaskPlan) -> Tensor:
        return self._gather(self.train, plan.train, plan)[0]

    def _gather(self, source: ImageSet, indices: Tensor, plan: TaskPlan) -> tuple[Tensor, Tensor]:
        fits = tuple(source.images.shape[-2:]) == (self.image_size, self.image_size)
        if len(indices) == len(source) and not plan.change_key and fits:
            return source.images, source.labels
        images = source.images[indices]
        if not fits:
            side = (self.image_size, self.image_size)
            resized = functional.interpolate(images.float(), size=side, mode="bilinear", antialias=True)
            images = resized.round_().clamp_(0, 255).to(torch.uint8)
        return plan.change(images), source.labels[indices]
