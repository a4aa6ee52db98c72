"""A model with the models before it: a change makes a new one of these, and nothing is ever copied to be tried."""

from dataclasses import dataclass, replace

from protoreplay.core.errors import UserError
from protoreplay.photos.photo_model import PhotoModel

UNDO_STEPS = 20


@dataclass(frozen=True)
class UndoableModel:
    """A model and how to go back.

    Attributes:
        model: as it is now.
        past: the models before the last changes, oldest first, at most `UNDO_STEPS`.
    """

    model: PhotoModel
    past: tuple[PhotoModel, ...] = ()

    def changed_to(self, model: PhotoModel) -> "UndoableModel":
        """After a change; the same if it changed nothing."""
        return self if model is self.model else UndoableModel(model, (*self.past[1 - UNDO_STEPS :], self.model))

    def corrected_to(self, model: PhotoModel) -> "UndoableModel":
        """With another model in place of this one, which is no change that could be undone."""
        return replace(self, model=model)

    def undone(self) -> "UndoableModel":
        """Before the last change; a `UserError` if none is known."""
        if not self.past:
            raise UserError("there is nothing to undo")
        return UndoableModel(self.past[-1], self.past[:-1])

    def without_past(self) -> "UndoableModel":
        """The model alone: nothing of what was before it is held any longer."""
        return UndoableModel(self.model)
