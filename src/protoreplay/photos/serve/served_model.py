"""The one owner of a model that is served: readers take a revision, changes come one after the other."""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from protoreplay.core.errors import BusyError, UserError
from protoreplay.encoders.pretrained import FrozenEncoder
from protoreplay.photos import model_file
from protoreplay.photos.feature_cache import discard_features
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.serve.turns import TurnQueue
from protoreplay.photos.teaching import PreparedPhotos, TeachingReport, learn_prepared
from protoreplay.photos.undo import UndoableModel

T = TypeVar("T")
FileStamp = tuple[int, int, int] | None
MOST_CHANGES = 8
"""At a time, one of them at work: the others wait."""
WAIT_SECONDS = 5.0
"""For the change before, and for other processes that change the file."""


@dataclass(frozen=True)
class ModelRevision:
    """A model that was made public.

    Attributes:
        number: of changes since the server started.
        state: the model, and what can be undone.
    """

    number: int
    state: UndoableModel

    @property
    def model(self) -> PhotoModel:
        """The model without its past."""
        return self.state.model


class ServedModel:
    """Holds the model of a file.

    The model that a change makes is saved, and only then becomes `current`: a reader sees the old one or the new one,
    and what it sees is on disk.

    Attributes:
        id: differs from that of the server before a restart.

    Args:
        path: the model's file; it is written at the first change.
        encoder: of the model.
        model: what the file holds, with the steps that can be undone or without, or a new one.
        say: told when another process holds the file.
    """

    def __init__(
        self, path: Path, encoder: FrozenEncoder, model: PhotoModel | UndoableModel, say: Callable[[str], None] = print
    ) -> None:
        self.path, self.encoder, self.id = path, encoder, secrets.token_hex(4)
        self.current = ModelRevision(0, model if isinstance(model, UndoableModel) else UndoableModel(model))
        self._say = say
        self._changes = TurnQueue(1, MOST_CHANGES, "changes")
        self._written = self._unusable = _stamp(path)

    def refreshed(self) -> ModelRevision:
        """The current revision, after what the command line has made of the file, unless a change is made right now."""
        found = _stamp(self.path)
        if found in (None, self._written, self._unusable):
            return self.current
        try:
            with self._changes.turn(0):
                state = self._on_disk()
                if state.model is not self.current.model:
                    self._written, self.current = found, ModelRevision(self.current.number + 1, state)
        except BusyError:
            pass
        except (UserError, OSError) as error:
            self._unusable = found
            logging.getLogger(__name__).warning("the file was changed, and cannot be used: %s", error)
        return self.current

    def change(self, step: Callable[[UndoableModel], UndoableModel]) -> ModelRevision:
        """Go on to what `step` makes of the current state; if it raises, nothing has changed."""
        return self._advance(lambda state: (step(state), None))[0]

    def learn(self, prepared: PreparedPhotos) -> TeachingReport:
        """Add photos to classes."""

        def step(state: UndoableModel) -> tuple[UndoableModel, TeachingReport]:
            model, report = learn_prepared(state.model, prepared)
            return state.changed_to(model), report

        return self._advance(step)[1]

    def forget(self, name: str) -> ModelRevision:
        """Remove a class, also from the cache of features; this process holds it in memory, so it can be undone."""

        def step(state: UndoableModel) -> tuple[UndoableModel, None]:
            # First what may fail: a `UserError` where features stay in the cache has changed nothing.
            discard_features(state.model.find_class(name).seen)
            return state.changed_to(state.model.forget(name)).kept_private(), None

        return self._advance(step)[0]

    def forget_photo(self, name: str, key: int) -> ModelRevision:
        """Remove one photo that is kept singly, also from the cache of features; it can be undone like a class."""

        def step(state: UndoableModel) -> UndoableModel:
            model = state.model.without_photo(name, key)
            discard_features(np.array([key], np.uint64))
            return state.changed_to(model).kept_private()

        return self.change(step)

    def _advance(self, step: Callable[[UndoableModel], tuple[UndoableModel, T]]) -> tuple[ModelRevision, T]:
        with self._changes.turn(WAIT_SECONDS), model_file.model_lock(self.path, self._say, WAIT_SECONDS):
            found = _stamp(self.path)
            state, result = step(self._on_disk())
            if state.model is not self.current.model:
                try:
                    model_file.write_model(state, self.path)
                finally:
                    # Also where the disk failed after the file was in its place: what is seen is what is there.
                    if _stamp(self.path) != found:
                        self._written = _stamp(self.path)
                        self.current = ModelRevision(self.current.number + 1, state)
            return self.current, result

    def _on_disk(self) -> UndoableModel:
        """The current state, or what the command line has made of the file in the meantime."""
        found = _stamp(self.path)
        if not found or found == self._written:
            return self.current.state
        return model_file.read_state(self.path).on_encoder(self.encoder)


def _stamp(path: Path) -> FileStamp:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns
