"""A method to be checked: built and taught as often as the checks want."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from protoreplay.encoders.registry import ImageShape
from protoreplay.methods.base import EncoderSettings, Method, MethodContext
from protoreplay.methods.registry import MethodEntry, get_method
from protoreplay.streams.stream import Task
from protoreplay.testing.toy import TOY_CLASSES, toy_task

SHORT = {"encoder": "conv-small", "epochs": 3}
"""Settings of methods that train a network, where the caller does not say: a check takes a second, not minutes."""

ENOUGH_EPOCHS = (40, 200)
"""Passes in which a method that trains a network must have learned two classes of stripes; most need but the first."""


@dataclass(frozen=True)
class Subject:
    """A method with its settings, and the toy stream that it is taught.

    Attributes:
        entry: which method.
        settings: of the method, where they differ from its own.
        image_shape: channels, height, width of the toy images.
        name: for messages.
        features: whether it is given the pixels as features, N x D x 1 x 1, as `--encoder pixels` gives them.
    """

    entry: MethodEntry
    settings: Mapping[str, Any] = field(default_factory=dict)
    image_shape: ImageShape = (1, 8, 8)
    name: str = "method"
    features: bool = False

    @classmethod
    def of(
        cls,
        method: type[Method[Any]] | MethodEntry | str,
        settings: Mapping[str, Any] | None = None,
        image_shape: ImageShape = (1, 8, 8),
        features: bool = False,
    ) -> "Subject":
        """From a class, an entry of the registry, or a name: registered, or `FILE.py:NAME`."""
        if isinstance(method, str):
            return cls(get_method(method, features), settings or {}, image_shape, method, features)
        entry = method if isinstance(method, MethodEntry) else MethodEntry(method)
        return cls(entry, settings or {}, image_shape, entry.method.__name__, features)

    @property
    def trains(self) -> bool:
        """Whether it is one of those that train a network, step by step."""
        return issubclass(self.entry.method.Config, EncoderSettings)

    def build(self, seed: int = 0, **settings: Any) -> Method[Any]:
        """The method before it has learned anything; `settings` come before those of the subject."""
        short = SHORT if self.trains else {}
        config = self.entry.settings(short, {**self.settings, **settings}, self.name)
        shape = (math.prod(self.image_shape), 1, 1) if self.features else self.image_shape
        return self.entry.build(config, MethodContext(shape, TOY_CLASSES, seed, features=self.features))

    def build_patient(self) -> Iterator[Method[Any]]:
        """The same with enough passes over the images to learn from them: first with a few, then with more."""
        return (self.build(epochs=epochs) for epochs in ENOUGH_EPOCHS) if self.trains else iter([self.build()])

    def stream(self) -> list[Task]:
        """First two classes, then one that comes between them in number, then one before them with one image."""
        return [self.task(1, (3, 8)), self.task(2, (5,)), self.task(3, (0,), shots=1)]

    def task(self, position: int, classes: tuple[int, ...], shots: int = 4) -> Task:
        """A task of toy images."""
        task = toy_task(position, classes, shots, self.image_shape)
        return replace(task, images=self._given(task.images))

    def taught(self, seed: int = 0, tasks: int = 3) -> Method[Any]:
        """The method after the first tasks of the stream."""
        method = self.build(seed)
        for task in self.stream()[:tasks]:
            method.learn(task)
        return method

    def images(self, count: int = 40) -> Tensor:
        """Images of noise, N x C x H x W: no class is the right answer, so all kinds of answers come up."""
        random = torch.Generator().manual_seed(9)
        return self._given(torch.randint(0, 256, (count, *self.image_shape), generator=random).to(torch.uint8))

    def _given(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :, None, None] / 255 if self.features else images
