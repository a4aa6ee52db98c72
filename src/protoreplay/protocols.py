"""An image set becomes a stream of tasks; the few-shot draw is fixed by the seed.

Two kinds of stream. *Incremental class*: every task brings classes never seen before. *Incremental domain*: the same
classes come back in every task with their pixels in another order, and the task is not known at test time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.data import Dataset, ImageSet, digits
from protoreplay.errors import UserError
from protoreplay.rng import generator
from protoreplay.settings import Settings, unknown

Evaluation = Literal["test", "validation"]


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
        """Refuse a task whose labels are not its classes."""
        present = tuple(self.labels.unique().tolist())
        if present != self.classes:
            raise ValueError(f"task {self.position} has images of classes {present}, not {self.classes}")


@dataclass(frozen=True)
class Plan:
    """One task as indices into the stream's image sets: `train` and `test` are int64 vectors, `pixels` an order."""

    classes: tuple[int, ...]
    train: Tensor
    test: Tensor
    pixels: Tensor | None = None


@dataclass(frozen=True)
class Stream:
    """Tasks in order, each with its test images; images are gathered when asked for, never copied ahead.

    Attributes:
        train: where training images come from.
        test: where test images come from.
        plans: the tasks.
        method_settings: what the protocol prescribes to every method that has such a setting.
    """

    train: ImageSet
    test: ImageSet
    plans: tuple[Plan, ...]
    method_settings: Mapping[str, Any]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def num_classes(self) -> int:
        """Number of classes of the data set, whether or not the stream brings them all."""
        return len(self.train.class_names)

    def known_classes(self) -> list[int]:
        """After each task, how many classes have been seen."""
        seen: set[int] = set()
        return [len(seen := seen | {*plan.classes}) for plan in self.plans]

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.plans)

    def __iter__(self) -> Iterator[Task]:
        """The tasks in order."""
        return (self.task(position) for position in range(1, len(self) + 1))

    def task(self, position: int) -> Task:
        """The training data of the task at `position` (from 1)."""
        plan = self.plans[position - 1]
        images, labels = _gather(self.train, plan.train, plan.pixels)
        return Task(position, plan.classes, images, labels)

    def test_set(self, position: int) -> tuple[Tensor, Tensor]:
        """Images (uint8, N x C x H x W) and labels (int64, N) on which the task at `position` is tested."""
        plan = self.plans[position - 1]
        return _gather(self.test, plan.test, plan.pixels)

    def shots(self) -> list[dict[str, Any]]:
        """The draw, ready for JSON: for each task its classes, its indices into the training set, its pixel order."""
        return [
            {
                "task": position,
                "classes": list(plan.classes),
                "train": plan.train.tolist(),
                "pixels": None if plan.pixels is None else plan.pixels.tolist(),
            }
            for position, plan in enumerate(self.plans, start=1)
        ]


def _gather(images: ImageSet, indices: Tensor, pixels: Tensor | None) -> tuple[Tensor, Tensor]:
    chosen = images.images[indices]
    if pixels is not None:
        chosen = chosen.flatten(2)[:, :, pixels].view_as(chosen)
    return chosen, images.labels[indices]


class StreamSettings(Settings):
    """What can be changed of any stream."""

    shots: int = Field(10, ge=1)
    """Training images per class and task (METHOD: 10)."""
    first_shots: int | Literal["same", "all"] = "same"
    """Training images per class in the first task: a number, `same` as later, or `all` there are."""
    tasks: int | Literal["all"] = "all"
    """Number of tasks."""


class SplitSettings(StreamSettings):
    """Incremental class."""

    first_classes: int = Field(2, ge=1)
    """Classes of the first task."""
    classes_per_task: int = Field(1, ge=1)
    """Classes that each later task brings."""
    class_order: Literal["sorted", "random"] = "sorted"
    """Order in which the classes come; `random` is drawn from the seed."""


class PermutedSettings(StreamSettings):
    """Incremental domain."""

    tasks: int = Field(10, ge=1)
    """Number of tasks, each with a pixel order of its own; the first keeps the order of the images."""


@dataclass(frozen=True)
class Protocol:
    """How a data set becomes a stream.

    Attributes:
        name: as given on the command line.
        kind: `incremental class` or `incremental domain`.
        summary: one line.
        load: gives the data set.
        defaults: settings that are not overridden.
        method_settings: what the protocol prescribes to every method that has such a setting.
    """

    name: str
    kind: Literal["incremental class", "incremental domain"]
    summary: str
    load: Callable[[], Dataset]
    defaults: SplitSettings | PermutedSettings
    method_settings: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, overrides: Mapping[str, Any]) -> SplitSettings | PermutedSettings:
        """The defaults with `overrides`; a wrong one is a `UserError`."""
        return self.defaults.parse({**self.defaults.model_dump(), **overrides}, self.name)

    def stream(
        self, seed: int, settings: SplitSettings | PermutedSettings | None = None, evaluation: Evaluation = "test"
    ) -> Stream:
        """The stream of `seed`: which images are drawn, and in which order classes or pixels come, depend on it alone.

        With `evaluation="validation"` shots and evaluation images are both cut from the training set, so that
        settings can be chosen without a look at the test set.
        """
        dataset = self.load()
        settings = settings or self.defaults
        train_pool = _indices_by_class(dataset.train)
        test, test_pool = dataset.test, _indices_by_class(dataset.test)
        if evaluation == "validation":
            test, test_pool = dataset.train, []
            for label, indices in enumerate(train_pool):
                shuffled = indices[torch.randperm(len(indices), generator=generator(seed, "validation", label))]
                held_out = min(len(indices) // 2, int((dataset.test.labels == label).sum()))
                test_pool.append(shuffled[:held_out].sort().values)
                train_pool[label] = shuffled[held_out:].sort().values
        orders: list[tuple[tuple[int, ...], Tensor | None]]
        if isinstance(settings, SplitSettings):
            orders = [(classes, None) for classes in _class_groups(settings, dataset.train.class_names, seed)]
        else:
            everything = tuple(range(len(dataset.train.class_names)))
            orders = [(everything, p) for p in _pixel_orders(settings.tasks, dataset.train.images[0, 0].numel(), seed)]
        plans = []
        for position, (classes, pixels) in enumerate(orders, start=1):
            wanted = settings.shots if position > 1 or settings.first_shots == "same" else settings.first_shots
            drawn = [_draw(train_pool[c], wanted, dataset.train.class_names[c], seed, position, c) for c in classes]
            plans.append(Plan(classes, torch.cat(drawn), torch.cat([test_pool[c] for c in classes]), pixels))
        return Stream(dataset.train, test, tuple(plans), self.method_settings)


def _indices_by_class(images: ImageSet) -> list[Tensor]:
    return [(images.labels == label).nonzero().flatten() for label in range(len(images.class_names))]


def _class_groups(settings: SplitSettings, names: tuple[str, ...], seed: int) -> list[tuple[int, ...]]:
    """The classes of each task: `first_classes`, then `classes_per_task` at a time until `tasks` or all classes."""
    count = len(names)
    order = list(range(count))
    if settings.class_order == "random":
        order = torch.randperm(count, generator=generator(seed, "class order")).tolist()
    if settings.first_classes > count:
        raise UserError(f"first_classes={settings.first_classes}: the data has only {count} classes")
    starts = [0, *range(settings.first_classes, count, settings.classes_per_task)]
    groups = [tuple(sorted(order[a:b])) for a, b in zip(starts, [*starts[1:], count], strict=True)]
    if settings.tasks == "all":
        return groups
    if not 1 <= settings.tasks <= len(groups):
        raise UserError(f"tasks={settings.tasks}: these classes make 1 to {len(groups)} tasks")
    return groups[: settings.tasks]


def _pixel_orders(tasks: int, pixels: int, seed: int) -> list[Tensor | None]:
    return [None] + [torch.randperm(pixels, generator=generator(seed, "pixels", t)) for t in range(2, tasks + 1)]


def _draw(pool: Tensor, wanted: int | str, name: str, seed: int, position: int, label: int) -> Tensor:
    """`wanted` of the indices in `pool`, ascending; the same for the same seed, whatever else is drawn."""
    if wanted == "all":
        return pool
    if not 1 <= int(wanted) <= len(pool):
        raise UserError(f"{wanted} shots of class '{name}' are asked for: it has {len(pool)} training images")
    return (
        pool[torch.randperm(len(pool), generator=generator(seed, "shots", position, label))[: int(wanted)]]
        .sort()
        .values
    )


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "split-digits",
            "incremental class",
            "8x8 digits: 2 classes, then one more in each of 8 tasks, 10 images each",
            digits.load,
            SplitSettings(),
            {"encoder": "conv-small", "dim": 64, "budget": 10},
        ),
        Protocol(
            "permuted-digits",
            "incremental domain",
            "8x8 digits under 10 pixel orders: all training images in task 1, then 10 of each class",
            digits.load,
            PermutedSettings(first_shots="all"),
            {"encoder": "mlp-small", "dim": 64, "budget": 1, "budget_per": "class"},
        ),
    )
}


def get(name: str) -> Protocol:
    """The protocol called `name`, or a `UserError` that lists them."""
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
