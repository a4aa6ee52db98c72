"""The steps that can be undone and redone, as a part of the model's file.

A step is a model: its classes are those of the file's own model, or stand in a pool of classes that this one no longer
has (or not yet). So a step costs what it changed. The nearest steps are kept while they fit `STEPS_BYTES`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.undo import UndoableModel
from protoreplay.prototypes.calibration import HeadCalibration

STEPS_BYTES = 8_000_000
"""What all steps of a file may take together."""

StepEntries = dict[str, list[dict[str, Any]]]
"""As JSON: the steps of the `past`, oldest first, and of the `future`, next first."""


class ClassPool:
    """Classes that steps have and the file's own model has not, each once.

    Attributes:
        classes: by a number, as text.
    """

    def __init__(self, current: PhotoModel) -> None:
        self.classes: dict[str, PhotoClass] = {}
        self._keep = current.keep
        self._current = {id(own): name for name, own in current.classes.items()}
        self._places: dict[int, tuple[str, PhotoClass]] = {}  # with the class itself, so that no other takes its id

    def cost(self, model: PhotoModel) -> int:
        """Bytes that a step would add."""
        new = {id(own): own for own in model.classes.values() if id(own) not in {**self._current, **self._places}}
        return sum(sum(own.stored_bytes().values()) for own in new.values()) + 500

    def place(self, own: PhotoClass) -> list[str]:
        """Where a class is found: `["model", its name]` or `["pool", its number]`."""
        if id(own) in self._current:
            return ["model", self._current[id(own)]]
        if id(own) not in self._places:
            number = f"{len(self._places):06}"
            self._places[id(own)] = number, own
            self.classes[number] = own.reduced(self._keep)  # no more thumbnails than asked for today
        return ["pool", self._places[id(own)][0]]


def steps_to_save(state: UndoableModel) -> tuple[StepEntries, Mapping[str, PhotoClass]]:
    """What to write of a state beside its model: the steps, and their pool of classes."""
    pool = ClassPool(state.model)
    entries: StepEntries = {"past": [], "future": []}
    if state.private:
        return entries, {}
    left = STEPS_BYTES
    waiting: dict[str, Iterator[PhotoModel]] = {"past": iter(state.past[::-1]), "future": iter(state.future)}
    while waiting:
        for side in list(waiting):  # in turn, the nearest of each first
            step = next(waiting[side], None)
            if step is None or (left := left - pool.cost(step)) < 0:
                del waiting[side]
            else:
                entries[side].append(_step_entry(step, state.model, pool))
    entries["past"].reverse()
    return entries, pool.classes


def saved_state(model: PhotoModel, entries: StepEntries, pool: Mapping[str, PhotoClass]) -> UndoableModel:
    """The state of a file's own model and what `steps_to_save` wrote beside it."""

    def step(entry: Mapping[str, Any]) -> PhotoModel:
        places = {"model": model.classes, "pool": pool}
        history = entry["history"]
        calibration = entry["calibration"]
        classes = {name: places[where][key] for name, (where, key) in entry["classes"].items()}
        return replace(
            model,
            width=next((own.sums.rows.shape[1] for own in classes.values()), 0),
            unknown=entry["unknown"],
            keep=entry["keep"],
            classes=classes,
            history=model.history[:history] if isinstance(history, int) else tuple(history),
            calibration=HeadCalibration(**calibration) if calibration else None,
            known_covariance=None,
        )

    past, future = (tuple(map(step, entries[side])) for side in ("past", "future"))
    return UndoableModel(model, past, future)


def _step_entry(step: PhotoModel, current: PhotoModel, pool: ClassPool) -> dict[str, Any]:
    begins = step.history == current.history[: len(step.history)]
    return {
        "unknown": step.unknown,
        "keep": step.keep,
        "classes": {name: pool.place(step.classes[name]) for name in sorted(step.classes)},
        "history": len(step.history) if begins else step.history,
        "calibration": step.calibration and step.calibration._asdict(),
    }
