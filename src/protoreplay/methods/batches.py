"""How training images are dealt to steps."""

import math
from collections.abc import Iterator
from itertools import chain, islice

import torch
from torch import Tensor

from protoreplay.methods.base import EncoderSettings


def batches(count: int, config: EncoderSettings, generator: torch.Generator) -> Iterator[Tensor]:
    """Indices (int64, at most `batch_size`) for the steps of `epochs` shuffled passes over `count` images."""
    passes = (torch.randperm(count, generator=generator).split(config.batch_size) for _ in range(config.epochs))
    return islice(chain.from_iterable(passes), steps_per_task(count, config))


def episodes(groups: Tensor, config: EncoderSettings, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Support and query indices for every step of `epochs` passes: two complementary halves of each class's share.

    Every class is in every step. A share has at least two images; a class of one image is its own support and query.

    Args:
        groups: int64, N, from 0 up: the class of each image.
        config: `epochs`, `batch_size` and `max_steps`.
        generator: deals the images.
    """
    passes = (_episodes_of_pass(groups, config, generator) for _ in range(config.epochs))
    return islice(chain.from_iterable(passes), steps_per_task(len(groups), config))


def _episodes_of_pass(
    groups: Tensor, config: EncoderSettings, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    counts = groups.bincount()
    first = counts.cumsum(0) - counts
    steps = steps_per_epoch(len(groups), config)
    share = counts.div(steps, rounding_mode="floor").clamp(min=2).minimum(counts)
    half = share // 2
    order = torch.randperm(len(groups), generator=generator)
    order = order[groups[order].argsort(stable=True)]
    group = groups[order]
    rank = torch.arange(len(groups)) - first[group]
    for step in range(steps):
        place = (rank - step * share[group]) % counts[group]
        support = place < half[group].clamp(min=1)
        query = (place >= half[group]) & (place < share[group])
        yield order[support], order[query]


def steps_per_epoch(count: int, config: EncoderSettings) -> int:
    """Steps in one pass over `count` images."""
    return math.ceil(count / config.batch_size)


def steps_per_task(count: int, config: EncoderSettings) -> int:
    """Steps on a task of `count` images."""
    steps = config.epochs * steps_per_epoch(count, config)
    return steps if config.max_steps == "all" else min(steps, config.max_steps)
