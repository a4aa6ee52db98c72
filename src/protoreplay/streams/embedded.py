"""A stream whose images were turned into features on the way in, by a frozen encoder.

Methods meet features as images of one pixel and D channels. What an encoder makes of an image is kept on the disk.
"""

import functools
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.rng import generator
from protoreplay.data.images import ImageSet
from protoreplay.encoders.dictionary import DictionarySettings
from protoreplay.encoders.feature_store import FeatureRows, FeatureStore, feature_store, features_folder
from protoreplay.encoders.frozen import DictionaryEncoder, ImageEncoder, frozen_encoder
from protoreplay.encoders.registry import ImageShape
from protoreplay.prototypes.sums import rooted
from protoreplay.streams.stream import Stream, Task, TaskPlan

REMEMBERED = 1 << 26
"""Numbers of features at most that a process keeps in memory for the runs to come: 256 MiB."""

TellFeatures = Callable[[int, int], None]
"""Told while features are made how many of how many there are."""


class _Remembered:
    """Features of some images of a set, by encoder and content; those asked for last, within `REMEMBERED`."""

    def __init__(self) -> None:
        # The image sets are kept with them, so that the identity of one stays its own.
        self._kept: OrderedDict[tuple[Any, ...], tuple[ImageSet, Tensor]] = OrderedDict()
        self._numbers = 0

    def get(self, key: tuple[Any, ...]) -> Tensor | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def put(self, key: tuple[Any, ...], source: ImageSet, features: Tensor) -> None:
        self._kept[key] = source, features
        self._numbers += features.numel()
        while self._numbers > REMEMBERED and len(self._kept) > 1:
            self._numbers -= self._kept.popitem(last=False)[1][1].numel()


_REMEMBERED = _Remembered()


@dataclass(frozen=True)
class EmbeddedStream(Stream):
    """The tasks of a stream as features: each image is float32, D x 1 x 1.

    Attributes:
        encoder: makes the features.
    """

    encoder: ImageEncoder

    @property
    def image_shape(self) -> ImageShape:
        """The number of features, 1, 1."""
        return self.encoder.width, 1, 1

    @property
    def features(self) -> bool:
        """True: images are features."""
        return True

    def task(self, position: int) -> Task:
        """The training data of the task at `position` (from 1), as features."""
        plan = self.plans[position - 1]
        return Task(position, plan.classes, *self._embedded(self.train, plan.train, plan))

    def test_set(self, position: int) -> tuple[Tensor, Tensor]:
        """Features (float32, N x D x 1 x 1) and labels (int64, N) on which the task at `position` is tested."""
        plan = self.plans[position - 1]
        return self._embedded(self.test, plan.test, plan)

    def prepare(self, tell: TellFeatures) -> None:
        """Make what all tasks need and nobody has made yet, at once."""
        if not self.encoder.kept:
            return
        wanted: dict[tuple[int, str], list[tuple[ImageSet, Tensor, TaskPlan]]] = {}
        for plan in self.plans:
            for source, indices in ((self.train, plan.train), (self.test, plan.test)):
                if _REMEMBERED.get(self._key(source, indices, plan)) is None:
                    wanted.setdefault((id(source), plan.change_key), []).append((source, indices, plan))
        for members in wanted.values():
            source, _, plan = members[0]
            self._rows(source, torch.cat([indices for _, indices, _ in members]).unique(), plan, tell)

    def _learned_images(self, plan: TaskPlan) -> Tensor:
        # As the data has them: what is done to them on the way to the encoder follows from the run's settings.
        images = self.train.images[plan.train]
        return super()._learned_images(plan) if plan.change_key else images

    def _embedded(self, source: ImageSet, indices: Tensor, plan: TaskPlan) -> tuple[Tensor, Tensor]:
        key = self._key(source, indices, plan)
        found = _REMEMBERED.get(key)
        if found is None:
            found = torch.from_numpy(self._rows(source, indices, plan))[:, :, None, None]
            _REMEMBERED.put(key, source, found)
        return found, source.labels[indices]

    def _key(self, source: ImageSet, indices: Tensor, plan: TaskPlan) -> tuple[Any, ...]:
        return self.encoder.fingerprint, id(source), self.image_size, _sha256(indices), plan.change_key

    def _rows(
        self,
        source: ImageSet,
        indices: Tensor,
        plan: TaskPlan,
        tell: TellFeatures = lambda done, total: None,
    ) -> FeatureRows:
        """N x D."""

        def make(place: int) -> FeatureRows:
            image = self._gather(source, indices[place : place + 1], plan)[0]
            row: FeatureRows = self._taken(self.encoder.embed(image))[0]
            return row

        if not self.encoder.kept:
            return self._taken(self.encoder.embed(self._gather(source, indices, plan)[0]))
        about = json.dumps([list(source.images.shape[1:]), self.image_size, plan.change_key]).encode()
        images = np.ascontiguousarray(source.images[indices].numpy())
        keys = [hashlib.sha256(about + image.tobytes()).digest() for image in images]
        return self._store.rows(keys, make, tell)

    @functools.cached_property
    def _store(self) -> FeatureStore:
        return feature_store(self.encoder.fingerprint, self.encoder.name, features_folder())

    def _taken(self, features: Tensor) -> FeatureRows:
        """Of networks made elsewhere, square roots of unit length, as the photo classifier takes them."""
        rows: FeatureRows = features.numpy()
        return rooted(rows).astype(np.float32) if self.encoder.network else rows


def embedded(
    stream: Stream, name: str, seed: int, dictionary: DictionarySettings | None = None, expected: str = ""
) -> EmbeddedStream:
    """A stream with its images as features.

    Args:
        stream: of images.
        name: of the encoder, as `frozen_encoder` takes it.
        seed: of the stream; what is fitted depends on it.
        dictionary: settings of `dictionary`, if not its own.
        expected: the fingerprint that the encoder must have; nothing is checked where it is empty.
    """
    encoder = _opened(name, stream.image_shape, dictionary)
    if expected not in ("", encoder.fingerprint):
        raise UserError(
            f"encoder {name} is not the one this run was planned with ({encoder.fingerprint[:8]}, not {expected[:8]})"
        )
    if isinstance(encoder, DictionaryEncoder):
        # The random numbers with which `vpr` makes its own dictionary: on one seed, both are the same.
        encoder = encoder.fit_to(stream.task(1).images, generator(seed, "VPR", "learn", 1))
    values = {field.name: getattr(stream, field.name) for field in fields(Stream)}
    return EmbeddedStream(**values, encoder=encoder)


@functools.lru_cache(maxsize=8)
def _opened(name: str, shape: ImageShape, dictionary: DictionarySettings | None) -> ImageEncoder:
    return frozen_encoder(name, shape, dictionary)


def fingerprint_of(name: str, shape: ImageShape, dictionary: DictionarySettings | None = None) -> str:
    """Of an encoder for images of a shape; of what is fitted, before it is."""
    return _opened(name, shape, dictionary).fingerprint


def _sha256(tensor: Tensor) -> bytes:
    return hashlib.sha256(tensor.contiguous().numpy().data).digest()
