"""A model with the models before and after it: a change makes a new one of these, and nothing is copied to be tried."""

from dataclasses import dataclass, replace

from protoreplay.core.errors import UserError
from protoreplay.encoders.pretrained import FrozenEncoder
from protoreplay.photos.photo_model import PhotoModel

UNDO_STEPS = 20


@dataclass(frozen=True)
class UndoableModel:
    """A model and how to go back and forth.

    Attributes:
        model: as it is now.
        past: the models before the last changes, oldest first, at most `UNDO_STEPS`.
        future: the models that were undone, the next one first.
        private: something in the past or the future was forgotten since, so that neither may be written to a file.
    """

    model: PhotoModel
    past: tuple[PhotoModel, ...] = ()
    future: tuple[PhotoModel, ...] = ()
    private: bool = False

    def changed_to(self, model: PhotoModel) -> "UndoableModel":
        """After a change; the same if it changed nothing."""
        if model is self.model:
            return self
        return replace(self, model=model, past=(*self.past[1 - UNDO_STEPS :], self.model), future=())

    def corrected_to(self, model: PhotoModel) -> "UndoableModel":
        """With another model in place of this one, which is no change that could be undone."""
        return replace(self, model=model)

    def on_encoder(self, encoder: FrozenEncoder) -> "UndoableModel":
        """The same, for an encoder of the same fingerprint that may have moved; a `UserError` for any other."""
        past, future = (tuple(model.on_encoder(encoder) for model in side) for side in (self.past, self.future))
        return replace(self, model=self.model.on_encoder(encoder), past=past, future=future)

    def undone(self) -> "UndoableModel":
        """Before the last change; a `UserError` if none is known."""
        if not self.past:
            raise UserError("there is nothing to undo")
        future = (self.model, *self.future)[:UNDO_STEPS]
        return replace(self, model=self.past[-1], past=self.past[:-1], future=future)

    def redone(self) -> "UndoableModel":
        """After the change that was undone last; a `UserError` if none was."""
        if not self.future:
            raise UserError("there is nothing to redo")
        return replace(self, model=self.future[0], past=(*self.past, self.model), future=self.future[1:])

    def kept_private(self) -> "UndoableModel":
        """With a past that stays in this process's memory: files hold the model alone."""
        return replace(self, private=True)

    def without_past(self) -> "UndoableModel":
        """The model alone: nothing of what was before or after it is held any longer."""
        return UndoableModel(self.model)
