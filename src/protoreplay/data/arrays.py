"""NumPy arrays become a dataset."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from protoreplay.core.errors import UserError
from protoreplay.data.images import Dataset, ImageSet

Channels = Literal["first", "last"]
"""Where the colours of an image stand: N x C x H x W, or N x H x W x C."""


def dataset_of_arrays(
    images: npt.ArrayLike,
    labels: npt.ArrayLike,
    eval_images: npt.ArrayLike | None = None,
    eval_labels: npt.ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    channels: Channels | None = None,
    name: str = "arrays",
) -> Dataset:
    """A dataset of images that are in memory; what cannot be one is a `UserError`.

    Args:
        images: uint8, N x H x W x C, N x C x H x W, or N x H x W of shades of grey; C is 1 or 3.
        labels: N numbers or texts; classes come in their order.
        eval_images: test images, in the same form; without them every third image of a class is one.
        eval_labels: their labels.
        class_names: names of the classes 0, 1, ...; without them a class is called by its label.
        channels: which of the two forms it is, where the shape fits both.
        name: of the dataset.
    """
    if (eval_images is None) != (eval_labels is None):
        raise UserError("eval_images and eval_labels: give both or neither")
    found = _array_pixels(images, channels, "images")
    names = _class_names(labels, class_names)
    numbers = _numbers(labels, names, len(found), class_names is not None, "labels")
    if eval_images is not None and eval_labels is not None:
        tests = _array_pixels(eval_images, channels, "eval_images")
        if tests.shape[1:] != found.shape[1:]:
            raise UserError(
                f"eval_images are {_shape(tests[0])}, images are {_shape(found[0])}: use one shape for both"
            )
        test_numbers = _numbers(eval_labels, names, len(tests), class_names is not None, "eval_labels")
        return Dataset(name, ImageSet(found, numbers, names), ImageSet(tests, test_numbers, names))
    is_test = torch.zeros(len(found), dtype=torch.bool)
    for label, called in enumerate(names):
        indices = (numbers == label).nonzero().flatten()
        if len(indices) < 2:
            raise UserError(f"class '{called}' has {len(indices)} images: give at least two, or eval_images")
        is_test[indices[1::3]] = True
    train, test = (ImageSet(found[kept], numbers[kept], names) for kept in (~is_test, is_test))
    return Dataset(name, train, test)


def _array_pixels(given: npt.ArrayLike, channels: Channels | None, what: str) -> torch.Tensor:
    """uint8, N x C x H x W."""
    array: npt.NDArray[Any] = np.asarray(given)
    if array.dtype != np.uint8:
        raise UserError(f"{what} have type {array.dtype}: give uint8 values from 0 to 255")
    if array.ndim == 3:
        array, channels = array[:, None], "first"
    if array.ndim != 4 or not array.size:
        raise UserError(f"{what} have the shape {array.shape}: give N x H x W x C, N x C x H x W or N x H x W")
    fits = {"first": array.shape[1] in (1, 3), "last": array.shape[3] in (1, 3)}
    possible = [form for form, fit in fits.items() if fit and channels in (None, form)]
    if not possible:
        raise UserError(f"{what} have the shape {array.shape}: the number of channels, C, must be 1 or 3")
    if len(possible) > 1:
        raise UserError(f"{what} have the ambiguous shape {array.shape}: give channels='first' or channels='last'")
    if possible == ["last"]:
        array = array.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.array(array, order="C"))


def _class_names(labels: npt.ArrayLike, class_names: Sequence[str] | None) -> tuple[str, ...]:
    if class_names is not None:
        return tuple(map(str, class_names))
    array: npt.NDArray[Any] = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iuUb":
        raise UserError(f"labels have type {array.dtype} and shape {array.shape}: give N integers or strings")
    return tuple(str(label) for label in np.unique(array).tolist())


def _numbers(given: npt.ArrayLike, names: tuple[str, ...], count: int, are_indices: bool, what: str) -> torch.Tensor:
    array: npt.NDArray[Any] = np.asarray(given)
    if array.shape != (count,):
        raise UserError(f"{what} have the shape {array.shape}: give one for each of the {count} images")
    place = {str(index) if are_indices else name: index for index, name in enumerate(names)}
    place |= {name: index for index, name in enumerate(names)} if array.dtype.kind == "U" else {}
    listed = [str(label) for label in array.tolist()]
    if wrong := next((label for label in listed if label not in place), None):
        raise UserError(f"{what} have {wrong}, which is {'no index of class_names' if are_indices else 'no class'}")
    return torch.tensor([place[label] for label in listed])


def _shape(image: torch.Tensor) -> str:
    return " x ".join(map(str, image.shape))
