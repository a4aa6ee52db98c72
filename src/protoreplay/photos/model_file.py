"""The model's file: safetensors, with a JSON object that says what is in it and how to know that it is whole.

`head -c 2000 MODEL` shows the names, counts, encoder and history. Arrays of all classes are stacked in the order of
names; those of different lengths have the position of each class's end beside them.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy
from pydantic import BaseModel

from protoreplay.core.checked_json import SCHEMA, checked_value, plain_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular, remove_leftovers, write_whole
from protoreplay.core.locks import held_lock
from protoreplay.core.words import printable
from protoreplay.photos import saved_steps
from protoreplay.photos.model_schema import ModelSaid, check_arrays
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.undo import UndoableModel
from protoreplay.prototypes.calibration import HeadCalibration
from protoreplay.prototypes.covariance import SharedCovariance
from protoreplay.prototypes.sums import ClassSums, GaussianSum

FORMAT = 2
"""Raised when older programs could no longer read what is written. What a file of an older one lacks has a default."""
OLDEST = 2
"""The oldest format whose features can still be used."""

SHARED_FROM = 2
"""Kept features for each dimension from which the shared covariance is written, too: so a model stays small."""

STEPS = "steps/"
"""How the names of arrays begin that are of steps which can be undone, and not of the model."""

MOST_BYTES = 2**33
"""Of a model's file: 50,000 classes."""

Arrays = dict[str, npt.NDArray[Any]]


class _Format(BaseModel):
    """What even a file of another format says."""

    model_config = SCHEMA

    format: int


def write_model(model: PhotoModel | UndoableModel, path: Path) -> None:
    """Replace the file by this model, whole or not at all; of an undoable one, with the steps that can be undone."""
    write_whole(path, model_to_bytes(model))


def model_to_bytes(model: PhotoModel | UndoableModel) -> bytes:
    """The file's bytes; the same model gives the same."""
    state = model if isinstance(model, UndoableModel) else UndoableModel(model)
    steps, pool = saved_steps.steps_to_save(state)
    model = state.model.calibrated()
    arrays = _arrays(model)
    if steps["past"] or steps["future"]:
        width = next((own.sums.rows.shape[1] for own in pool.values()), model.width)
        pooled = replace(model, classes=pool, width=width, known_covariance=None)
        arrays |= {STEPS + name: array for name, array in _arrays(pooled).items()}
    about = {
        "format": FORMAT,
        "encoder": {"name": model.encoder, "fingerprint": model.fingerprint, "width": model.width},
        "unknown": model.unknown,
        "keep": model.keep,
        "classes": {name: model.classes[name].count for name in sorted(model.classes)},
        "calibration": model.calibration and model.calibration._asdict(),
        "history": model.history,
        "steps": steps,
        "pool": {number: own.count for number, own in pool.items()},
        "sha256": {key: _digest(array) for key, array in sorted(arrays.items())},
    }
    text = json.dumps(about, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    # One entry, because safetensors writes several in any order.
    return safetensors.numpy.save(arrays, {"protoreplay": f"{digest} {text}"})


def read_model(path: Path) -> PhotoModel:
    """The model of a file; a `UserError` of one line for what is not there, not ours, damaged, or too new."""
    return read_state(path).model


def read_state(path: Path) -> UndoableModel:
    """The same with the steps that can be undone and redone."""
    try:
        content = read_regular(path, MOST_BYTES)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: `protoreplay learn {path} FOLDER` makes it") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder: give the model's file") from None
    return state_from_bytes(content, str(path))


def model_from_bytes(content: bytes, name: str) -> PhotoModel:
    """The model of a file's bytes; `name` is for messages."""
    return state_from_bytes(content, name).model


def state_from_bytes(content: bytes, name: str) -> UndoableModel:
    """The same with the steps that can be undone and redone."""
    try:
        arrays = safetensors.numpy.load(content)
        length = int.from_bytes(content[:8], "little")
        digest, _, text = plain_json(content[8 : 8 + length])["__metadata__"]["protoreplay"].partition(" ")
        spoilt = hashlib.sha256(text.encode()).hexdigest() != digest
    # Of kinds of numbers that NumPy has not, safetensors raises a few more.
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise UserError(f"{name} is not a model of protoreplay's, or only a part of one") from None
    try:
        if spoilt:
            raise ValueError("its description")
        found = plain_json(text)
        _check_format(checked_value(found, _Format).format, name)
        said = checked_value(found, ModelSaid)
        for key in sorted({*arrays, *said.sha256}):
            if key not in arrays or _digest(arrays[key]) != said.sha256.get(key):
                raise ValueError(key)
        own = {key: array for key, array in arrays.items() if not key.startswith(STEPS)}
        about = said.model_dump()
        model = _model(about, own)
        if len(own) == len(arrays):
            return UndoableModel(model)
        pooled = {key.removeprefix(STEPS): array for key, array in arrays.items() if key.startswith(STEPS)}
        return saved_steps.saved_state(model, about["steps"], _classes(about["pool"], pooled, pooled["rows"].shape[1]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"{name} is damaged ({printable(str(error))}): use a copy of it") from None


def _check_format(format: int, name: str) -> None:
    if format > FORMAT:
        raise UserError(f"{name} was written by a newer protoreplay (format {format}): upgrade to open it")
    if format < OLDEST:
        raise UserError(f"{name} was written by a protoreplay whose models this one cannot use: teach the photos again")


def check_place(path: Path) -> None:
    """A `UserError` if a file cannot be made there."""
    if not path.parent.is_dir():
        raise UserError(f"{path.parent} is not a folder: make it first")
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a model's file")


@contextlib.contextmanager
def model_lock(path: Path, say: Callable[[str], None], timeout: float = -1) -> Iterator[None]:
    """Hold a model's file against other processes that change it; readers need no lock. `timeout` as of `held_lock`."""
    check_place(path)
    path = Path(os.path.realpath(path))  # by whatever link it is called: one file, one lock
    with held_lock(path.with_name(f".{path.name}.lock"), say, f"another process is changing {path}", timeout):
        remove_leftovers(path)
        yield


def _arrays(model: PhotoModel) -> Arrays:
    members = [model.classes[name] for name in sorted(model.classes)]
    sums = [member.sums for member in members]
    others = [own.others for own in sums]
    pictures = [(key, member.thumbnails[key]) for member in members for key in sorted(member.thumbnails)]
    no_keys, no_rows = np.zeros(0, np.uint64), np.zeros((0, model.width), np.float16)
    large = [other for other in others if other.weight]
    arrays = {
        "seen": np.concatenate([no_keys, *(member.seen for member in members)]),
        "keys": np.concatenate([no_keys, *(own.keys for own in sums)]),
        "looks": np.concatenate([no_keys, *(own.looks for own in sums)]),
        "rows": np.concatenate([no_rows, *(own.rows for own in sums)]),
        "row_ends": _ends([len(own.keys) for own in sums]),
        "other_weights": np.array([other.weight for other in others], np.float64),
        "other_evens": np.array([other.even for other in others], np.float64),
        "other_means": np.stack([other.mean for other in large]) if large else np.zeros((0, model.width)),
        "other_rows": np.concatenate([no_rows, *(other.factor for other in others)]),
        "other_ends": _ends([len(other.factor) for other in others]),
        "thumbnails": np.frombuffer(b"".join(picture for _, picture in pictures), np.uint8),
        "thumbnail_ends": _ends([len(picture) for _, picture in pictures]),
        "thumbnail_keys": np.array([key for key, _ in pictures], np.uint64),
        "thumbnail_owner_ends": _ends([len(m.thumbnails) for m in members]),
    }
    known = model.known_covariance
    if known is not None and len(arrays["rows"]) >= SHARED_FROM * model.width:
        arrays["shared"] = known.dense[np.triu_indices(model.width)].astype(np.float32)
    return arrays


def _ends(lengths: list[int]) -> npt.NDArray[np.int64]:
    return np.cumsum(np.array(lengths, np.int64), dtype=np.int64)


def _classes(counts: Mapping[str, int], arrays: Arrays, width: int) -> dict[str, PhotoClass]:
    """By name; `counts` has the number of photos of each."""
    check_arrays(counts, arrays, width)
    seen = np.split(arrays["seen"], _ends(list(counts.values()))[:-1])
    pictures = np.split(arrays["thumbnails"], arrays["thumbnail_ends"][:-1])
    owned = np.split(np.arange(len(arrays["thumbnail_keys"])), arrays["thumbnail_owner_ends"][:-1])
    classes = {}
    # Of no classes, there is still one empty part of everything.
    for (name, sums), keys, own in zip(_class_sums(counts, arrays, width), seen, owned, strict=bool(counts)):
        thumbnails = {int(arrays["thumbnail_keys"][i]): pictures[i].tobytes() for i in own}
        classes[name] = PhotoClass(sums, keys, thumbnails)
    return classes


def _model(about: Mapping[str, Any], arrays: Arrays) -> PhotoModel:
    width = about["encoder"]["width"]
    classes = _classes(about["classes"], arrays, width)
    calibration = about.get("calibration")
    return PhotoModel(
        about["encoder"]["name"],
        about["encoder"]["fingerprint"],
        width,
        about.get("unknown", 0.05),
        about.get("keep", 0),
        classes,
        tuple(about.get("history", ())),
        HeadCalibration(**calibration) if calibration else None,
        _shared(classes, arrays, width),
    )


def _class_sums(counts: Mapping[str, int], arrays: Arrays, width: int) -> Iterator[tuple[str, ClassSums]]:
    keys, looks, rows = (np.split(arrays[name], arrays["row_ends"][:-1]) for name in ("keys", "looks", "rows"))
    factors, means = np.split(arrays["other_rows"], arrays["other_ends"][:-1]), iter(arrays["other_means"])
    for row, name in enumerate(counts):
        others = GaussianSum.nothing(width, np.float16)
        if weight := float(arrays["other_weights"][row]):
            others = GaussianSum(weight, next(means), factors[row], float(arrays["other_evens"][row]))
        yield name, ClassSums(keys[row], looks[row], np.ones(len(keys[row])), rows[row], others)


def _shared(classes: Mapping[str, PhotoClass], arrays: Arrays, width: int) -> SharedCovariance | None:
    """The covariance where it was written: of thousands of classes it takes seconds to add it up."""
    if "shared" not in arrays:
        return None
    dense = np.zeros((width, width))
    dense[np.triu_indices(width)] = arrays["shared"]
    dense += np.triu(dense, 1).T
    even = sum(own.sums.even_scatter for own in classes.values())
    freedom = sum(own.sums.count for own in classes.values()) - len(classes)
    return SharedCovariance(np.zeros((0, width)), dense, even, float(freedom))


def _digest(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
