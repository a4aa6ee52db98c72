import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.undo import UNDO_STEPS, UndoableModel


def numbered(number):
    return PhotoModel(f"encoder {number}", "f" * 64)


def test_changes_are_undone_in_turn_and_nothing_is_shared():
    first = UndoableModel(numbered(0))
    second = first.changed_to(numbered(1))
    third = second.changed_to(numbered(2))
    assert third.undone() == UndoableModel(numbered(1), (numbered(0),), (numbered(2),))
    assert third.undone().undone() == UndoableModel(numbered(0), (), (numbered(1), numbered(2)))
    assert third.undone().undone().redone().redone() == third
    # Going on from an older state does not touch what came after it.
    other = second.changed_to(numbered(3))
    assert (third.model, other.undone().model) == (numbered(2), second.model)
    assert third.undone().changed_to(numbered(3)) == other, "what was undone is gone after another change"
    with pytest.raises(UserError, match="nothing to redo"):
        third.redone()
    with pytest.raises(UserError, match="nothing to undo"):
        first.undone()


def test_only_changes_can_be_undone():
    state = UndoableModel(numbered(0)).changed_to(numbered(1))
    assert state.changed_to(state.model) is state
    assert state.corrected_to(numbered(2)).undone().model == numbered(0)
    with pytest.raises(UserError, match="nothing to undo"):
        state.without_past().undone()


def test_the_past_is_bounded():
    state = UndoableModel(numbered(0))
    for number in range(1, 50):
        state = state.changed_to(numbered(number))
    assert [model.encoder for model in state.past] == [f"encoder {49 - UNDO_STEPS + k}" for k in range(UNDO_STEPS)]
