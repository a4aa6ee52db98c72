"""An image set becomes a stream of tasks; the few-shot draw is fixed by the seed.

Two kinds of stream. *Incremental class*: every task brings classes never seen before. *Incremental domain*: the same
classes come back in every task with their pixels in another order, and the task is not known at test time.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.registry import Registry, is_in_file
from protoreplay.core.rng import generator
from protoreplay.data.catalog import DATASETS, DatasetEntry, dataset_entry
from protoreplay.data.images import ImageSet
from protoreplay.streams.settings import EvaluationImages as EvaluationImages
from protoreplay.streams.settings import PermutedSettings as PermutedSettings
from protoreplay.streams.settings import SplitSettings as SplitSettings
from protoreplay.streams.stream import Stream, TaskPlan


@dataclass(frozen=True)
class Protocol:
    """How a data set becomes a stream.

    Attributes:
        name: as given on the command line.
        summary: one line.
        data: name of the data set, as `dataset_entry` takes it.
        classes: number of classes of the data, 0 where it is not known before it is read.
        defaults: settings that are not overridden.
        method_settings: what the protocol prescribes to every method that has such a setting.
    """

    name: str
    summary: str
    data: str
    classes: int
    defaults: SplitSettings | PermutedSettings
    method_settings: Mapping[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which opens the data itself."""
        return {key: value for key, value in vars(self).items() if key != "dataset"}

    @functools.cached_property
    def dataset(self) -> DatasetEntry:
        """Where the images come from; photos of a folder are read once for all streams of this object."""
        return dataset_entry(self.data)

    @property
    def kind(self) -> str:
        """Which of the two kinds of stream it is."""
        return "incremental class" if isinstance(self.defaults, SplitSettings) else "incremental domain"

    def outline(self) -> tuple[str, str, str]:
        """Tasks, classes and training images per class with the default settings, each as a short text."""
        chosen = self.defaults
        shots = f"{chosen.shots}" if chosen.first_shots == "same" else f"{chosen.first_shots}, then {chosen.shots}"
        if isinstance(chosen, PermutedSettings):
            return str(chosen.tasks), f"{self.classes or 'all'} in each", shots
        tasks = str(len(_class_groups(chosen, self.classes, seed=0))) if self.classes else str(chosen.tasks)
        return tasks, f"{chosen.first_classes}, then {chosen.classes_per_task}", shots

    def settings(self, overrides: Mapping[str, Any]) -> SplitSettings | PermutedSettings:
        """The defaults with `overrides`; a wrong one is a `UserError`."""
        return self.defaults.parse({**self.defaults.model_dump(), **overrides}, self.name)

    def stream(
        self, seed: int, settings: SplitSettings | PermutedSettings | None = None, evaluation: EvaluationImages = "test"
    ) -> Stream:
        """The stream of `seed`: which images are drawn, and in which order classes or pixels come, depend on it alone.

        With `evaluation="validation"` shots and evaluation images are both cut from the training set, so that
        settings can be chosen without a look at the test set.
        """
        settings = settings or self.defaults
        dataset = self.dataset.load(settings.image_size)
        names = dataset.train.class_names
        train_pool = _indices_by_class(dataset.train)
        test, test_pool = dataset.test, _indices_by_class(dataset.test)
        if evaluation == "validation":
            test = dataset.train
            train_pool, test_pool = _hold_out(train_pool, [len(pool) for pool in test_pool], seed)
        if settings.test_images != "all":
            orders = [
                torch.randperm(len(pool), generator=generator(seed, "test", c)) for c, pool in enumerate(test_pool)
            ]
            test_pool = [pool[order[: settings.test_images]] for pool, order in zip(test_pool, orders, strict=True)]
        plans = []
        for position, (classes, pixels) in enumerate(_tasks(settings, names, seed), start=1):
            wanted = settings.shots if position > 1 or settings.first_shots == "same" else settings.first_shots
            if evaluation == "validation" and wanted != "all":
                wanted = min(wanted, *(len(train_pool[c]) for c in classes))
            drawn = [_draw(train_pool[c], wanted, names[c], generator(seed, "shots", position, c)) for c in classes]
            tested = torch.cat([test_pool[c] for c in classes])
            plans.append(TaskPlan(classes, torch.cat(drawn).sort().values, tested.sort().values, pixels))
        return Stream(dataset.train, test, tuple(plans), settings.image_size, self)


def _indices_by_class(images: ImageSet) -> list[Tensor]:
    return [(images.labels == label).nonzero().flatten() for label in range(len(images.class_names))]


def _hold_out(pools: list[Tensor], sizes: list[int], seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Split each pool into what remains for training and as many as `sizes` says for evaluation, at most half."""
    remaining, held_out = [], []
    for label, (pool, size) in enumerate(zip(pools, sizes, strict=True)):
        shuffled = pool[torch.randperm(len(pool), generator=generator(seed, "validation", label))]
        cut = min(len(pool) // 2, size)
        held_out.append(shuffled[:cut])
        remaining.append(shuffled[cut:])
    return remaining, held_out


def _tasks(
    settings: SplitSettings | PermutedSettings, names: tuple[str, ...], seed: int
) -> list[tuple[tuple[int, ...], Tensor | None]]:
    """The classes and the pixel order of each task."""
    if isinstance(settings, SplitSettings):
        return [(classes, None) for classes in _class_groups(settings, len(names), seed)]
    everything = tuple(range(len(names)))
    orders = [
        torch.randperm(settings.image_size**2, generator=generator(seed, "pixels", position))
        for position in range(2, settings.tasks + 1)
    ]
    return [(everything, order) for order in (None, *orders)]


def _class_groups(settings: SplitSettings, count: int, seed: int) -> list[tuple[int, ...]]:
    """The classes of each task: `first_classes`, then `classes_per_task` at a time until `tasks` or all classes."""
    order = list(range(count))
    if settings.class_order == "random":
        order = torch.randperm(count, generator=generator(seed, "class order")).tolist()
    if settings.first_classes > count:
        raise UserError(f"first_classes={settings.first_classes}: the data has only {count} classes")
    starts = [0, *range(settings.first_classes, count, settings.classes_per_task)]
    groups = [tuple(sorted(order[a:b])) for a, b in zip(starts, [*starts[1:], count], strict=True)]
    if settings.tasks == "all":
        return groups
    if settings.tasks > len(groups):
        raise UserError(f"tasks={settings.tasks}: these classes make at most {len(groups)} tasks")
    return groups[: settings.tasks]


def _draw(pool: Tensor, wanted: int | Literal["all"], name: str, random: torch.Generator) -> Tensor:
    """`wanted` of the indices in `pool`."""
    if wanted == "all":
        return pool
    if wanted > len(pool):
        raise UserError(f"{wanted} shots of class '{name}' are asked for: it has {len(pool)} training images")
    return pool[torch.randperm(len(pool), generator=random)[:wanted]]


_OWN = (
    Protocol(
        "split-digits",
        "8x8 digits: 2 classes, then one more in each of 8 tasks, 10 images each",
        "digits",
        10,
        SplitSettings(image_size=8),
        {"encoder": "conv-small", "dim": 64, "budget": 10},
    ),
    Protocol(
        "permuted-digits",
        "8x8 digits under 10 pixel orders: all training images in task 1, then 10 of each class",
        "digits",
        10,
        PermutedSettings(first_shots="all", image_size=8),
        {"encoder": "mlp-small", "dim": 64, "budget": 1, "budget_per": "class"},
    ),
    Protocol(
        "split-cifar10",
        "CIFAR-10: 2 classes, then one more in each of 8 tasks, 10 images each",
        "cifar10",
        10,
        SplitSettings(),
        {"encoder": "lenet", "dim": 500, "budget": 10},
    ),
    Protocol(
        "permuted-mnist",
        "MNIST under 50 pixel orders: all training images in task 1, then 10 of each class",
        "mnist",
        10,
        PermutedSettings(first_shots="all", tasks=50, image_size=28),
        {"encoder": "mlp-1000", "dim": 64, "budget": 1, "budget_per": "class"},
    ),
    Protocol(
        "split-mini-imagenet",
        "mini-ImageNet: 10 tasks of 10 classes, 480 images of each in task 1, then 10",
        "mini-imagenet",
        100,
        SplitSettings(first_shots=480, first_classes=10, classes_per_task=10),
        {"encoder": "conv5", "dim": 500, "budget": 100, "epochs": 20},
    ),
    Protocol(
        "fscil-mini-imagenet",
        "mini-ImageNet: all images of 60 base classes, then 8 sessions of 5 classes with 5 images each",
        "mini-imagenet",
        100,
        SplitSettings(shots=5, first_shots="all", first_classes=60, classes_per_task=5),
        {"encoder": "conv5", "dim": 500, "budget": 100, "epochs": 20},
    ),
)


def _as_protocol(thing: Any, name: str) -> Protocol:
    if not isinstance(thing, Protocol):
        raise UserError(f"{name} is no protocol: give a protoreplay.streams.protocols.Protocol")
    return replace(thing, name=name)


PROTOCOLS: Registry[Protocol] = Registry(
    "protocol", {protocol.name: protocol for protocol in _OWN}, _as_protocol, ("split:DATA", "permuted:DATA")
)


def get_protocol(name: str) -> Protocol:
    """The protocol called `name`; `split:DATA` and `permuted:DATA` are those of a dataset or a folder of photos."""
    kind, separator, data = name.partition(":")
    if not (separator and data and kind in ("split", "permuted")):
        return PROTOCOLS.get(name)
    side = _own_side(data)
    return Protocol(
        name,
        dataset_entry(data).summary,
        data,
        0,
        SplitSettings(image_size=side) if kind == "split" else PermutedSettings(image_size=side),
        {"encoder": "lenet", "dim": 500} | ({"budget": 1, "budget_per": "class"} if kind == "permuted" else {}),
    )


def _own_side(data: str) -> int:
    """The side of a dataset's images; 32 of photos, which have none of their own."""
    if data in DATASETS or is_in_file(data):
        height, width = dataset_entry(data).load(32).train.images.shape[-2:]
        return max(4, int(height), int(width))
    return 32


def make_stream(protocol: str, seed: int = 0, evaluation: EvaluationImages = "test", **settings: Any) -> Stream:
    """The stream of tasks of a protocol; `settings` are those of `protoreplay protocols show PROTOCOL`.

    Examples:
        >>> len(make_stream("split-digits"))
        9
    """
    chosen = get_protocol(protocol)
    return chosen.stream(seed, chosen.settings(settings), evaluation)
