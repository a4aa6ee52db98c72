"""What is found out of a model once for each revision, and only when somebody asks."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from protoreplay.photos.photo_model import PhotoModel

T = TypeVar("T")


class PerRevision(Generic[T]):
    """The result of some work on the model; asked twice of the same one, it is done once.

    Args:
        work: on a model; two at a time never run.
    """

    def __init__(self, work: Callable[[PhotoModel], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._last: tuple[PhotoModel, T] | None = None

    def __call__(self, model: PhotoModel) -> T:
        """What the work gives, from memory where the model is still the same."""
        with self._lock:
            if self._last is None or self._last[0] is not model:
                self._last = model, self._work(model)
            return self._last[1]
