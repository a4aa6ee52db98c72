"""What a step that can be undone or redone has done, told from the models before and after it."""

import itertools
from dataclasses import dataclass
from typing import Literal

from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.undo import UndoableModel

StepKind = Literal["learn", "merge", "forget", "forget photo", "rename", "unite", "correct", "settings"]


@dataclass(frozen=True)
class ModelStep:
    """One step.

    Attributes:
        kind: what was done; `correct` moved photos from one class to another.
        classes: the classes it was done to, by their names before it (of `learn` and `merge`, those that grew).
        into: the class that `rename`, `unite` and `correct` have made or enlarged; empty otherwise.
        photos: how many came, went or moved.
        time: when, in seconds since 1970; 0 where the history does not say.
    """

    kind: StepKind
    classes: tuple[str, ...]
    into: str = ""
    photos: int = 0
    time: float = 0.0


def model_steps(state: UndoableModel) -> tuple[list[ModelStep], list[ModelStep]]:
    """The steps that can be undone, oldest first, and those that can be redone, next first."""
    before = [*state.past, state.model]
    after = [state.model, *state.future]
    done = [step_between(one, other) for one, other in itertools.pairwise(before)]
    undone = [step_between(one, other) for one, other in itertools.pairwise(after)]
    return done, undone


def step_between(before: PhotoModel, after: PhotoModel) -> ModelStep:
    """The step that leads from one model to the next."""
    old, new = before.classes, after.classes
    counts = {name: (new[name].count if name in new else 0) - (old[name].count if name in old else 0)
              for name in sorted({*old, *new})}  # fmt: skip
    grown = tuple(name for name, change in counts.items() if change > 0)
    shrunk = tuple(name for name, change in counts.items() if change < 0)
    gone = tuple(name for name in shrunk if name not in new)
    came = sum(counts[name] for name in grown)
    went = -sum(counts[name] for name in shrunk)
    last = after.history[-1] if after.history else None
    time = float(last["time"]) if last and (not before.history or last is not before.history[-1]) else 0.0
    if not grown and not shrunk:
        return ModelStep("settings", (), time=0.0)
    if not shrunk:
        kind: StepKind = "merge" if last and last["action"] == "merge" else "learn"
        return ModelStep(kind, grown, photos=came, time=time)
    if not grown:
        return ModelStep("forget" if gone else "forget photo", gone or shrunk, photos=went, time=time)
    if last and last["action"] == "rename":
        return ModelStep("rename", gone, grown[0], came, time)
    if last and last["action"] == "unite":
        return ModelStep("unite", gone, grown[0], came, time)
    return ModelStep("correct", shrunk, grown[0], came, time)
