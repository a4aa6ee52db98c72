"""What a model's file may say, checked once when it is opened: whoever can write a file can write the digests in it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, Field, FiniteFloat

from protoreplay.core.checked_json import SCHEMA, PlainText
from protoreplay.core.errors import UserError
from protoreplay.encoders.pretrained import MOST_FEATURES
from protoreplay.photos.photo_model import checked_class_name
from protoreplay.photos.undo import UNDO_STEPS

Arrays = Mapping[str, npt.NDArray[Any]]

LATEST = 253402300799
"""The last second that a date can show."""


def _plain_class_name(name: str) -> str:
    try:
        if checked_class_name(name) == name:
            return name
    except UserError as error:
        raise ValueError(str(error)) from None
    raise ValueError("the name of a class is not in its normal form")


ClassName = Annotated[str, AfterValidator(_plain_class_name)]
Count = Annotated[int, Field(ge=1, le=2**40)]
Share = Annotated[float, Field(ge=0, le=0.5, allow_inf_nan=False)]
Kept = Annotated[int, Field(ge=0, le=1000)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class EncoderSaid(BaseModel):
    """The encoder of a model."""

    model_config = SCHEMA

    name: Annotated[PlainText, Field(min_length=1, max_length=4096)]
    fingerprint: Sha256
    width: Annotated[int, Field(ge=0, le=MOST_FEATURES)]


class CalibrationSaid(BaseModel):
    """As `HeadCalibration`."""

    model_config = SCHEMA

    ridge: Annotated[FiniteFloat, Field(ge=0)]
    shrink: FiniteFloat
    noise: Annotated[FiniteFloat, Field(ge=0)]
    temperature: Annotated[FiniteFloat, Field(gt=0)]
    familiar_mean: FiniteFloat
    familiar_std: Annotated[FiniteFloat, Field(ge=0)]
    groups: Annotated[int, Field(ge=0)]


class EventSaid(BaseModel):
    """One thing that was done to a model."""

    model_config = SCHEMA

    time: Annotated[FiniteFloat, Field(ge=0, le=LATEST)]
    action: Annotated[PlainText, Field(max_length=100)]
    classes: dict[ClassName, Annotated[int, Field(ge=0, le=2**40)]]


class StepSaid(BaseModel):
    """A step that can be undone or done again; its classes are the model's own, or stand in the pool."""

    model_config = SCHEMA

    unknown: Share
    keep: Kept
    classes: dict[ClassName, Annotated[list[str], Field(min_length=2, max_length=2)]]
    history: Annotated[int, Field(ge=0)] | list[EventSaid]
    calibration: CalibrationSaid | None = None


class ModelSaid(BaseModel):
    """The description in a model's file."""

    model_config = SCHEMA

    encoder: EncoderSaid
    unknown: Share = 0.05
    keep: Kept = 0
    classes: dict[ClassName, Count]
    calibration: CalibrationSaid | None = None
    history: list[EventSaid] = []
    steps: dict[Literal["past", "future"], Annotated[list[StepSaid], Field(max_length=UNDO_STEPS)]] = {}
    pool: dict[str, Count] = {}
    sha256: dict[str, Sha256]


_KINDS: dict[str, tuple[str, int]] = {
    "seen": ("uint64", 1),
    "keys": ("uint64", 1),
    "looks": ("uint64", 1),
    "rows": ("float16", 2),
    "row_ends": ("int64", 1),
    "other_weights": ("float64", 1),
    "other_evens": ("float64", 1),
    "other_means": ("float64", 2),
    "other_rows": ("float16", 2),
    "other_ends": ("int64", 1),
    "thumbnails": ("uint8", 1),
    "thumbnail_ends": ("int64", 1),
    "thumbnail_keys": ("uint64", 1),
    "thumbnail_owner_ends": ("int64", 1),
}
"""Of each array the kind of number, and how many dimensions it has."""
_ENDS = {
    "row_ends": "keys",
    "other_ends": "other_rows",
    "thumbnail_ends": "thumbnails",
    "thumbnail_owner_ends": "thumbnail_keys",
}
"""Arrays that say where parts end, and whose parts."""


def check_arrays(counts: Mapping[str, int], arrays: Arrays, width: int) -> None:
    """A `ValueError` that names an array which does not go with the classes, by name with their photos, or the width.

    `arrays` may also have `shared`, D x D without what is below the diagonal.
    """
    for name, (kind, dimensions) in _KINDS.items():
        array = arrays[name]
        if array.dtype != kind or array.ndim != dimensions or (dimensions == 2 and array.shape[1] != width):
            raise ValueError(f"{name}: {array.dtype} {array.shape}")
        _require(array.dtype.kind != "f" or bool(np.isfinite(array).all()), name)
    if "shared" in arrays:
        shared = arrays["shared"]
        _require(shared.dtype == np.float32 and shared.shape == (width * (width + 1) // 2,), "shared")
        _require(bool(np.isfinite(shared).all()), "shared")
    number, weights = len(counts), arrays["other_weights"]
    for name, whole in _ENDS.items():
        parts = len(arrays["thumbnail_keys"]) if name == "thumbnail_ends" else number
        ends = arrays[name]
        _require(len(ends) == parts and bool((np.diff(ends, prepend=0) >= 0).all()), name)
        _require((int(ends[-1]) if parts else 0) == len(arrays[whole]), name)
    _require(len(arrays["looks"]) == len(arrays["rows"]) == len(arrays["keys"]), "rows")
    _require(len(weights) == len(arrays["other_evens"]) == number, "other_weights")
    _require(bool((weights >= 0).all() and (arrays["other_evens"] >= 0).all()), "other_weights")
    _require(len(arrays["other_means"]) == int((weights > 0).sum()), "other_means")
    taught = np.array(list(counts.values()), np.int64)
    _require(int(taught.sum()) == len(arrays["seen"]), "seen")
    _require(_ascending(arrays["seen"], np.cumsum(taught)), "seen")
    _require(_ascending(arrays["keys"], arrays["row_ends"]), "keys")
    # What is kept singly and all the others are the photos that were taught.
    found = np.diff(arrays["row_ends"], prepend=0) + weights
    _require(bool(np.allclose(found, taught, rtol=1e-6, atol=0.01)), "row_ends")


def _ascending(keys: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64]) -> bool:
    """Whether each part of the keys is in order, and none is there twice."""
    rises = keys[1:] > keys[:-1]
    rises[ends[(ends > 0) & (ends < len(keys))] - 1] = True  # from one part to the next
    return bool(rises.all())


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(name)
