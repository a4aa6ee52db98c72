"""An image set becomes a stream of tasks; the few-shot draw is fixed by the seed.

Two kinds of stream. *Incremental class*: every task brings classes never seen before. *Incremental domain*: the same
classes come back in every task with their pixels in another order, turned or blurred, and the task is not known at test
time.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.registry import Registry, is_in_file
from protoreplay.core.rng import generator
from protoreplay.data.arrays import Channels, dataset_of_arrays
from protoreplay.data.catalog import DATASETS, DatasetEntry, dataset_entry
from protoreplay.data.images import ImageSet
from protoreplay.streams.draws import ImagePools, draw_images, image_pools, listed_groups, task_classes
from protoreplay.streams.shot_lists import list_digest
from protoreplay.streams.stream import Stream, TaskPlan
from protoreplay.streams.stream_settings import EvaluationImages as EvaluationImages
from protoreplay.streams.stream_settings import PermutedSettings as PermutedSettings
from protoreplay.streams.stream_settings import SplitSettings as SplitSettings


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
        images_per_class: training and test images per class of the benchmark, where a copy may have fewer.
    """

    name: str
    summary: str
    data: str
    classes: int
    defaults: SplitSettings | PermutedSettings
    method_settings: Mapping[str, Any] = field(default_factory=dict)
    images_per_class: tuple[int, int] | None = None

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
        numbers = [str(number) for number in range(self.classes)]
        tasks = str(len(task_classes(chosen, numbers, seed=0))) if self.classes else str(chosen.tasks)
        return tasks, f"{chosen.first_classes}, then {chosen.classes_per_task}", shots

    def settings(self, overrides: Mapping[str, Any]) -> SplitSettings | PermutedSettings:
        """The defaults with `overrides`; a wrong one is a `UserError`."""
        chosen = self.defaults.parse({**self.defaults.model_dump(), **overrides}, self.name)
        if not isinstance(chosen, SplitSettings) or not chosen.shot_list:
            return chosen
        digest = list_digest(Path(chosen.shot_list))
        if chosen.shot_list_sha256 not in ("", digest):
            raise UserError(f"shot_list={chosen.shot_list} has changed: its SHA-256 was {chosen.shot_list_sha256}")
        return chosen.model_copy(update={"shot_list_sha256": digest})

    def shortfall(self, settings: SplitSettings | PermutedSettings) -> str:
        """How the data at hand falls short of `images_per_class`, in a sentence; empty if it does not."""
        if self.images_per_class is None or (isinstance(settings, SplitSettings) and settings.shot_list):
            return ""
        whole = settings.model_copy(update={"test_images": "all"})
        pools = image_pools(self.dataset.load(settings.image_size), whole, 0, "test")
        counts = [[len(pool) for pool in part] for part in (pools.train_pool, pools.test_pool)]
        if all(min(found) >= usual for found, usual in zip(counts, self.images_per_class, strict=True)):
            return ""
        found = " and ".join(
            f"{_span(part)} {kind}" for part, kind in zip(counts, ("training", "test images"), strict=True)
        )
        usual = "{} and {}".format(*self.images_per_class)
        return (
            f"this copy of {self.data} has {found} per class, not {usual}; all there are of the base classes are used"
        )

    def stream(
        self, seed: int, settings: SplitSettings | PermutedSettings | None = None, evaluation: EvaluationImages = "test"
    ) -> Stream:
        """The stream of `seed`: which images are drawn, and in which order classes or pixels come, depend on it alone.

        With `evaluation="validation"` shots and evaluation images are both cut from the training set, so that
        settings can be chosen without using the test set.
        """
        settings = settings or self.defaults
        pools = image_pools(self.dataset.load(settings.image_size), settings, seed, evaluation)
        names = pools.train.class_names
        shots = {} if pools.listed is None else _listed_shots(torch.cat(pools.listed.sessions), pools.train)
        plans = []
        for position, (classes, change) in enumerate(_tasks(settings, pools, seed), start=1):
            wanted = settings.shots if position > 1 or settings.first_shots == "same" else settings.first_shots
            if evaluation == "validation" and wanted != "all":
                wanted = min(wanted, *(len(pools.train_pool[c]) for c in classes))
            drawn = [
                shots[c]
                if c in shots
                else draw_images(pools.train_pool[c], wanted, names[c], generator(seed, "shots", position, c))
                for c in classes
            ]
            tested = torch.cat([pools.test_pool[c] for c in classes])
            plans.append(TaskPlan(classes, torch.cat(drawn).sort().values, tested.sort().values, **change))
        return Stream(pools.train, pools.test, tuple(plans), settings.image_size, self)


def _span(counts: list[int]) -> str:
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _listed_shots(listed: Tensor, images: ImageSet) -> dict[int, Tensor]:
    """The listed images of each class that has some."""
    labels = images.labels[listed]
    return {label: listed[labels == label] for label in labels.unique().tolist()}


def _tasks(
    settings: SplitSettings | PermutedSettings, pools: ImagePools, seed: int
) -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    """The classes of each task, and what is done to its images."""
    names = pools.train.class_names
    if isinstance(settings, PermutedSettings):
        return [(tuple(range(len(names))), change) for change in _changes(settings, settings.image_size, seed)]
    if pools.listed is None:
        return [(classes, {}) for classes in task_classes(settings, names, seed)]
    return [(classes, {}) for classes in listed_groups(pools.listed, pools.train.labels, settings, names, seed)]


def _changes(settings: PermutedSettings, side: int, seed: int) -> list[dict[str, Any]]:
    """What is done to the images of each task, as `TaskPlan` takes it; nothing in the first."""
    later = range(2, settings.tasks + 1)
    if settings.change == "rotate":
        angles = [180 * float(torch.rand((), generator=generator(seed, "angle", position))) for position in later]
        return [{}, *({"degrees": angle} for angle in angles)]
    if settings.change == "blur":
        return [{}, *({"blur": side / 10 * (position - 1) / (settings.tasks - 1)} for position in later)]
    orders = [torch.randperm(side**2, generator=generator(seed, "pixels", position)) for position in later]
    return [{}, *({"pixels": order} for order in orders)]


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
        "rotated-digits",
        "8x8 digits at 10 angles: all training images upright, then 10 of each class",
        "digits",
        10,
        PermutedSettings(first_shots="all", image_size=8, change="rotate"),
        {"encoder": "mlp-small", "dim": 64, "budget": 1, "budget_per": "class"},
    ),
    Protocol(
        "blurred-digits",
        "8x8 digits ever more blurred: all training images in focus, then 10 of each class",
        "digits",
        10,
        PermutedSettings(first_shots="all", image_size=8, change="blur"),
        {"encoder": "mlp-small", "dim": 64, "budget": 1, "budget_per": "class"},
    ),
    Protocol(
        "fscil-digits",
        "8x8 digits: all images of 6 base classes, then 4 sessions of one class with 5 images",
        "digits",
        10,
        SplitSettings(shots=5, first_shots="all", first_classes=6, image_size=8),
        {"encoder": "conv-small", "dim": 64, "budget": 10},
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
        "rotated-mnist",
        "MNIST at 20 angles: all training images upright, then 10 of each class",
        "mnist",
        10,
        PermutedSettings(first_shots="all", tasks=20, image_size=28, change="rotate"),
        {"encoder": "mlp-1000", "dim": 64, "budget": 1, "budget_per": "class"},
    ),
    Protocol(
        "blurred-mnist",
        "MNIST ever more blurred: all training images in focus, then 10 of each class",
        "mnist",
        10,
        PermutedSettings(first_shots="all", tasks=10, image_size=28, change="blur"),
        {"encoder": "mlp-1000", "dim": 64, "budget": 1, "budget_per": "class"},
    ),
    Protocol(
        "split-fashion-mnist",
        "Fashion-MNIST: 2 classes, then one more in each of 8 tasks, 10 images each",
        "fashion-mnist",
        10,
        SplitSettings(image_size=28),
        {"encoder": "lenet", "dim": 500, "budget": 10},
    ),
    Protocol(
        "split-cifar100",
        "CIFAR-100: 10 tasks of 10 classes, 10 images each, without a base session",
        "cifar100",
        100,
        SplitSettings(first_classes=10, classes_per_task=10),
        {"encoder": "lenet", "dim": 500, "budget": 100},
    ),
    Protocol(
        "fscil-cifar100",
        "CIFAR-100: all images of 60 base classes, then 8 sessions of 5 classes with 5 images each",
        "cifar100",
        100,
        SplitSettings(shots=5, first_shots="all", first_classes=60, classes_per_task=5),
        {"encoder": "conv5", "dim": 500, "budget": 100, "epochs": 20},
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
        SplitSettings(shots=5, first_shots="all", first_classes=60, classes_per_task=5, image_size=84, held_out=100),
        {"encoder": "conv5", "dim": 500, "budget": 100, "epochs": 20},
        images_per_class=(500, 100),
    ),
)


def _as_protocol(thing: Any, name: str) -> Protocol:
    if not isinstance(thing, Protocol):
        raise UserError(f"{name} is not a protocol: give a protoreplay.streams.protocols.Protocol")
    return replace(thing, name=name)


PROTOCOLS: Registry[Protocol] = Registry(
    "protocol", {protocol.name: protocol for protocol in _OWN}, _as_protocol, ("split:DATA", "permuted:DATA")
)


def get_protocol(name: str) -> Protocol:
    """The protocol called `name`; `split:DATA` and `permuted:DATA` are those of a dataset or a folder of photos."""
    kind, separator, data = name.partition(":")
    if not (separator and data and kind in ("split", "permuted")):
        return PROTOCOLS.get(name)
    return _of_data(name, dataset_entry(data).summary, data, _own_side(data))


def _of_data(name: str, summary: str, data: str, side: int) -> Protocol:
    """The protocol `split:DATA` or `permuted:DATA` of images of a side."""
    is_split = name.startswith("split:")
    return Protocol(
        name,
        summary,
        data,
        0,
        SplitSettings(image_size=side) if is_split else PermutedSettings(image_size=side),
        {"encoder": "lenet", "dim": 500} | ({} if is_split else {"budget": 1, "budget_per": "class"}),
    )


def _own_side(data: str) -> int:
    """The side of a dataset's images; 32 of photos, which have none of their own."""
    if data in DATASETS or is_in_file(data):
        height, width = dataset_entry(data).load(32).train.images.shape[-2:]
        return max(4, int(height), int(width))
    return 32


def make_stream(
    protocol: str = "split",
    seed: int = 0,
    evaluation: EvaluationImages = "test",
    *,
    images: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    eval_images: npt.ArrayLike | None = None,
    eval_labels: npt.ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    channels: Channels | None = None,
    **settings: Any,
) -> Stream:
    """The stream of tasks of a protocol, or of arrays; `settings` are those of `protoreplay protocols show PROTOCOL`.

    With `images` and `labels`, which `dataset_of_arrays` describes together with the other four, `protocol` is `split`
    or `permuted`.

    Examples:
        >>> len(make_stream("split-digits"))
        9
        >>> import numpy as np
        >>> images, labels = np.zeros((12, 8, 8, 3), np.uint8), np.arange(12) % 4
        >>> [task.classes for task in make_stream(images=images, labels=labels, shots=2)]
        [(0, 1), (2,), (3,)]
    """
    others = (labels, eval_images, eval_labels, class_names, channels)
    if images is not None and labels is not None:
        if protocol not in ("split", "permuted"):
            raise UserError(f"protocol {protocol} has its own images: with arrays, give split or permuted")
        dataset = dataset_of_arrays(images, labels, eval_images, eval_labels, class_names, channels)
        side = max(4, *dataset.train.images.shape[-2:])
        chosen = _of_data(f"{protocol}:arrays", f"{len(dataset.train.class_names)} classes of arrays", "arrays", side)
        vars(chosen)["dataset"] = DatasetEntry("arrays", chosen.summary, lambda size: dataset)
    elif images is not None or any(other is not None for other in others):
        raise UserError("a stream of arrays needs both images and labels")
    else:
        chosen = get_protocol(protocol)
    return chosen.stream(seed, chosen.settings(settings), evaluation)
