"""Which images and classes a task gets: pools of images per class, cut, listed and drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.rng import generator
from protoreplay.data.images import Dataset, ImageSet
from protoreplay.streams.shot_lists import ListedImages, read_shot_list
from protoreplay.streams.stream_settings import EvaluationImages, PermutedSettings, SplitSettings


@dataclass(frozen=True)
class ImagePools:
    """Where the images of a stream come from.

    Attributes:
        train: the set that holds the training images.
        test: the set that holds the test images; it may be the same.
        train_pool: for each class the indices of its training images.
        test_pool: for each class the indices of its test images.
        listed: what a list of shots says, as indices into `train`.
    """

    train: ImageSet
    test: ImageSet
    train_pool: list[Tensor]
    test_pool: list[Tensor]
    listed: ListedImages | None = None


def image_pools(
    dataset: Dataset, settings: SplitSettings | PermutedSettings, seed: int, evaluation: EvaluationImages
) -> ImagePools:
    """The pools of a dataset: as it divides itself, or as the settings say."""
    pools = _divided(dataset, settings)
    train_pool, test, test_pool = pools.train_pool, pools.test, pools.test_pool
    if evaluation == "validation":
        if pools.listed is not None:
            raise UserError("shot_list and --eval validation exclude each other: a list leaves no validation images")
        test = pools.train
        train_pool, test_pool = _hold_out(train_pool, [len(pool) for pool in test_pool], seed)
    if settings.test_images != "all":
        orders = [torch.randperm(len(pool), generator=generator(seed, "test", c)) for c, pool in enumerate(test_pool)]
        test_pool = [pool[order[: settings.test_images]] for pool, order in zip(test_pool, orders, strict=True)]
    return ImagePools(pools.train, test, train_pool, test_pool, pools.listed)


def _divided(dataset: Dataset, settings: SplitSettings | PermutedSettings) -> ImagePools:
    """Training and test images before any is drawn."""
    train, test = dataset.train, dataset.test
    train_pool, test_pool = _indices_by_class(train), _indices_by_class(test)
    most = settings.held_out if isinstance(settings, SplitSettings) else "given"
    listed = None
    if isinstance(settings, SplitSettings) and settings.shot_list:
        listed = read_shot_list(Path(settings.shot_list), dataset)
    moves = most != "given" and any(len(pool) > most for pool in test_pool)
    plain = listed is None or (listed.test is None and all(int(some.max()) < len(train) for some in listed.sessions))
    if plain and not moves:
        return ImagePools(train, test, train_pool, test_pool, listed)
    together = dataset.joined()
    test_pool = [pool + len(train) for pool in test_pool]
    if moves and most != "given":
        # The last ones of a class go, so that the test images are those that every smaller number would have.
        train_pool = [torch.cat([pool, more[most:]]) for pool, more in zip(train_pool, test_pool, strict=True)]
        test_pool = [pool[:most] for pool in test_pool]
    if listed is not None:
        if listed.test is not None:
            test_pool = [listed.test[together.labels[listed.test] == label] for label in range(len(test_pool))]
        taken = torch.cat(listed.sessions)
        test_pool = [pool[~torch.isin(pool, taken)] for pool in test_pool]
        if untested := next((n for n, pool in zip(train.class_names, test_pool, strict=True) if not len(pool)), None):
            raise UserError(f"the shot_list leaves no test image of class '{untested}'")
        tested = torch.cat(test_pool)
        train_pool = [pool[~torch.isin(pool, tested)] for pool in train_pool]
    return ImagePools(together, together, train_pool, test_pool, listed)


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


def task_classes(settings: SplitSettings, names: Sequence[str], seed: int) -> list[tuple[int, ...]]:
    """The classes of each task: `first_classes`, then `classes_per_task` at a time until `tasks` or all classes."""
    count = len(names)
    if settings.first_classes > count:
        raise UserError(f"first_classes={settings.first_classes}: the data has only {count} classes")
    order = _class_order(settings, names, seed)
    starts = [0, *range(settings.first_classes, count, settings.classes_per_task)]
    return _first_tasks(
        [tuple(sorted(order[a:b])) for a, b in zip(starts, [*starts[1:], count], strict=True)], settings
    )


def listed_groups(
    listed: ListedImages, labels: Tensor, settings: SplitSettings, names: Sequence[str], seed: int
) -> list[tuple[int, ...]]:
    """The classes of each session of a list.

    A list that leaves out at least `first_classes` classes has no base session: that many of them, in the order of the
    settings, come first.
    """
    if not listed.has_sessions:
        return task_classes(settings, names, seed)
    groups = [tuple(labels[session].unique().tolist()) for session in listed.sessions]
    named = {label for group in groups for label in group}
    others = [label for label in _class_order(settings, names, seed) if label not in named]
    if len(others) >= settings.first_classes:
        groups = [tuple(sorted(others[: settings.first_classes])), *groups]
    return _first_tasks(groups, settings)


def _first_tasks(groups: list[tuple[int, ...]], settings: SplitSettings) -> list[tuple[int, ...]]:
    if settings.tasks == "all":
        return groups
    if settings.tasks > len(groups):
        raise UserError(f"tasks={settings.tasks}: these classes allow at most {len(groups)} tasks")
    return groups[: settings.tasks]


def _class_order(settings: SplitSettings, names: Sequence[str], seed: int) -> list[int]:
    count = len(names)
    if settings.class_order == "sorted":
        return list(range(count))
    if settings.class_order == "random":
        return torch.randperm(count, generator=generator(seed, "class order")).tolist()
    numbers = {str(index): index for index in range(count)} | {name: index for index, name in enumerate(names)}
    if unknown := next((name for name in settings.class_order if name not in numbers), None):
        raise UserError(f"class_order lists '{unknown}', which is neither a class nor a number from 0 to {count - 1}")
    order = [numbers[name] for name in settings.class_order]
    if twice := next((label for label in order if order.count(label) > 1), None):
        raise UserError(f"class_order lists class '{names[twice]}' twice")
    if missing := next((name for label, name in enumerate(names) if label not in order), None):
        raise UserError(f"class_order lists {len(order)} of {count} classes: '{missing}' is missing")
    return order


def draw_images(pool: Tensor, wanted: int | Literal["all"], name: str, random: torch.Generator) -> Tensor:
    """`wanted` of the indices in `pool`."""
    if wanted == "all":
        return pool
    if wanted > len(pool):
        raise UserError(f"class '{name}' has {len(pool)} training images, fewer than the {wanted} shots requested")
    return pool[torch.randperm(len(pool), generator=random)[:wanted]]
