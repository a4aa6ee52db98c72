"""The one owner of a model that is served: readers take a revision, changes come one after the other."""

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.encoders.pretrained import FrozenEncoder
from protoreplay.photos import model_file
from protoreplay.photos.feature_cache import discard_features
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.teaching import PreparedPhotos, TeachingReport, learn_prepared
from protoreplay.photos.undo import UndoableModel
from protoreplay.prototypes.sums import Keys

T = TypeVar("T")
FileStamp = tuple[int, int, int] | None


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
        self._writer = threading.Lock()
        self._written = self._unusable = _stamp(path)

    def refreshed(self) -> ModelRevision:
        """The current revision, after what the command line has made of the file, unless a change is made right now."""
        found = _stamp(self.path)
        if found in (None, self._written, self._unusable) or not self._writer.acquire(blocking=False):
            return self.current
        try:
            state = self._on_disk()
            if state.model is not self.current.model:
                self._written, self.current = found, ModelRevision(self.current.number + 1, state)
        except (UserError, OSError) as error:
            self._unusable = found
            logging.getLogger(__name__).warning("the file was changed, and cannot be used: %s", error)
        finally:
            self._writer.release()
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

        def step(state: UndoableModel) -> tuple[UndoableModel, Keys]:
            return state.changed_to(state.model.forget(name)).kept_private(), state.model.find_class(name).seen

        revision, keys = self._advance(step)
        discard_features(keys)
        return revision

    def forget_photo(self, name: str, key: int) -> ModelRevision:
        """Remove one photo that is kept singly, also from the cache of features; it can be undone like a class."""
        revision = self.change(lambda state: state.changed_to(state.model.without_photo(name, key)).kept_private())
        discard_features(np.array([key], np.uint64))
        return revision

    def _advance(self, step: Callable[[UndoableModel], tuple[UndoableModel, T]]) -> tuple[ModelRevision, T]:
        with self._writer, model_file.model_lock(self.path, self._say):
            state, result = step(self._on_disk())
            if state.model is not self.current.model:
                model_file.write_model(state, self.path)
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
