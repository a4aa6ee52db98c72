"""What can be changed of a stream. Needs no PyTorch: tables and reports of finished runs are made without it."""

from typing import Annotated, Literal

from pydantic import Field

from protoreplay.core.settings import Settings

EvaluationImages = Literal["test", "validation"]
"""Test images, or validation images cut from the training set."""


class StreamSettings(Settings):
    """What can be changed of any stream."""

    shots: Annotated[int, Field(ge=1)] | Literal["all"] = 10
    """Training images per class and task (published: 10), or `all` there are."""
    first_shots: Annotated[int, Field(ge=1)] | Literal["same", "all"] = "same"
    """Training images per class in the first task: a number, `same` as later, or `all` there are."""
    tasks: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    """Number of tasks."""
    image_size: int = Field(32, ge=4)
    """Height and width of the images; they are resized if the data has others."""
    # Written down only where it is not the default: a run of before there was a choice is still the same run.
    test_images: Annotated[int, Field(ge=1)] | Literal["all"] = Field("all", exclude_if=lambda wanted: wanted == "all")
    """Test images per class, at most, the same ones in every task; where there are more, they are drawn."""


class SplitSettings(StreamSettings):
    """Settings of a stream in which every task brings classes never seen before."""

    first_classes: int = Field(2, ge=1)
    """Classes of the first task."""
    classes_per_task: int = Field(1, ge=1)
    """Classes that each later task brings."""
    class_order: Literal["sorted", "random"] = "sorted"
    """Order in which the classes come; `random` is drawn from the seed."""


class PermutedSettings(StreamSettings):
    """Settings of a stream in which the same classes come back with their pixels in another order."""

    tasks: int = Field(10, ge=1)
    """Number of tasks, each with a pixel order of its own; the first keeps the order of the images."""
