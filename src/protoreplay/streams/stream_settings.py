"""What can be changed of a stream. Needs no PyTorch: tables and reports of finished runs are made without it."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from protoreplay.core.settings import Settings

EvaluationImages = Literal["test", "validation"]
"""Test images, or validation images cut from the training set."""


def _listed_classes(given: Any) -> Any:
    """A text that is neither `sorted` nor `random` as names: those in the file it names, or those between commas."""
    if not isinstance(given, str) or given in ("sorted", "random"):
        return tuple(map(str, given)) if isinstance(given, list | tuple) else given
    try:
        # Path.is_file raises where a list is longer than a path may be.
        text = Path(given).read_text() if os.path.isfile(given) else given  # noqa: PTH113
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read ({' '.join(str(error).split())})") from None
    names = tuple(name.strip() for line in text.splitlines() for name in line.split(",") if name.strip())
    if names == (given,):
        raise ValueError("give sorted, random, a file, or the classes with commas between them")
    return names


class StreamSettings(Settings):
    """What can be changed of any stream."""

    shots: Annotated[int, Field(ge=1)] | Literal["all"] = 10
    """Number of training images per class and task (published: 10), or `all`."""
    first_shots: Annotated[int, Field(ge=1)] | Literal["same", "all"] = "same"
    """Number of training images per class in the first task, `same` as in later tasks, or `all`."""
    tasks: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    """Number of tasks."""
    image_size: int = Field(32, ge=4)
    """Height and width of the images; data of another size is resized."""
    # Written down only where it is not the default: a run of before there was a choice is still the same run.
    test_images: Annotated[int, Field(ge=1)] | Literal["all"] = Field("all", exclude_if=lambda wanted: wanted == "all")
    """Maximum number of test images per class, drawn at random if there are more; every task has the same ones."""


class SplitSettings(StreamSettings):
    """Settings of a stream in which every task brings classes never seen before."""

    first_classes: int = Field(2, ge=1)
    """Number of classes in the first task."""
    classes_per_task: int = Field(1, ge=1)
    """Number of new classes in each later task."""
    class_order: Annotated[Literal["sorted", "random"] | tuple[str, ...], BeforeValidator(_listed_classes)] = "sorted"
    """Order of the classes: `sorted`, `random` (drawn from the seed), or all of them by name or number, in a file or
    separated by commas."""
    held_out: Annotated[int, Field(ge=1)] | Literal["given"] = Field("given", exclude_if=lambda kept: kept == "given")
    """Maximum number of test images per class; any others are used for training. `given`: the dataset's own split."""
    shot_list: str = Field("", exclude_if=lambda path: not path)
    """File, or folder with one file per session, that lists the training images, one index or path per line."""
    shot_list_sha256: str = Field("", exclude_if=lambda digest: not digest)
    """SHA-256 digest of that list, filled in automatically; a list that has changed since is refused."""


class PermutedSettings(StreamSettings):
    """Settings of a stream in which the same classes come back with their pixels changed."""

    tasks: int = Field(10, ge=1)
    """Number of tasks, each with its own change; the first task has the original images."""
    change: Literal["permute", "rotate", "blur"] = Field("permute", exclude_if=lambda change: change == "permute")
    """What distinguishes the tasks: the order of the pixels, a rotation of 0 to 180 degrees drawn from the seed, or a
    Gaussian blur that grows up to a tenth of the image's side."""
