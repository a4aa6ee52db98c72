"""A folder of photos: one sub-folder per class, any format, any size."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from protoreplay.core.errors import UserError, print_to_stderr
from protoreplay.core.files import visible_entries
from protoreplay.data import pictures
from protoreplay.data.images import Dataset, ImageSet


def load(path: Path, size: int, warn: Callable[[str], None] = print_to_stderr) -> Dataset:
    """The photos of `read_photos`, of which a third of each class, at least one, is for testing.

    Where the folder has an official split, `path/train` and `path/test` with the same classes in both, that is taken.
    Test photos are evenly spaced among the readable ones of a class, in the order of their names: the same every
    time, and from all of a series of shots. A class needs two photos, and the folder two classes.
    """
    if all(_holds_classes(path / part) for part in ("train", "test")):
        return _official_split(path, size, warn)
    photos = read_photos(path, size, warn)
    if len(photos.class_names) < 2:
        raise UserError(f"{path} has only one class, '{photos.class_names[0]}': give at least two sub-folders")
    is_test = torch.zeros(len(photos), dtype=torch.bool)
    for label, name in enumerate(photos.class_names):
        indices = (photos.labels == label).nonzero().flatten()
        if len(indices) < 2:
            raise UserError(
                f"{path / name} has only one readable photo: give at least two, one to train and one to test"
            )
        tests = max(1, len(indices) // 3)
        is_test[indices[[(2 * i + 1) * len(indices) // (2 * tests) for i in range(tests)]]] = True
    train, test = (ImageSet(photos.images[k], photos.labels[k], photos.class_names) for k in (~is_test, is_test))
    return Dataset(path.resolve().name, train, test)


def _holds_classes(path: Path) -> bool:
    return path.is_dir() and any(entry.is_dir() for entry in visible_entries(path))


def _official_split(path: Path, size: int, warn: Callable[[str], None]) -> Dataset:
    train, test = (read_photos(path / part, size, warn) for part in ("train", "test"))
    if odd := sorted({*train.class_names} ^ {*test.class_names}):
        where = "train" if odd[0] in train.class_names else "test"
        raise UserError(f"{path / where / odd[0]}: every class must be in both {path / 'train'} and {path / 'test'}")
    if len(train.class_names) < 2:
        raise UserError(f"{path / 'train'} has only one class, '{train.class_names[0]}': give at least two sub-folders")
    return Dataset(path.resolve().name, train, test)


def read_photos(path: Path, size: int, warn: Callable[[str], None] = print_to_stderr) -> ImageSet:
    """All photos, uint8, N x 3 x size x size: classes and, within a class, photos in the order of their names.

    A photo is turned upright as its camera noted, cut to its central square and resized. What cannot be read is
    passed over with one line to `warn`; hidden files are passed over in silence.
    """
    if not path.is_dir():
        raise UserError(f"{path} is not a folder: give one with a sub-folder of photos per class")
    if size < 1:
        raise UserError(f"size={size}: must be at least 1")
    classes = [entry for entry in visible_entries(path) if entry.is_dir()]
    if not classes:
        raise UserError(f"{path} has no sub-folders: put the photos of each class into a sub-folder")
    files = [(label, file) for label, folder in enumerate(classes) for file in visible_entries(folder)]

    def decode(item: tuple[int, Path]) -> npt.NDArray[np.uint8] | str:
        if not item[1].is_file():
            return f"{item[1]}: not a file"
        try:
            return pictures.decode_picture(item[1], size)[0]
        except UserError as error:
            return f"{item[1]}: {error}"

    images, labels = [], []
    for (label, _), photo in zip(files, pictures.map_in_threads(decode, files, lambda _: None), strict=True):
        if isinstance(photo, str):
            warn(photo)
        else:
            images.append(photo)
            labels.append(label)
    if empty := set(range(len(classes))) - set(labels):
        raise UserError(f"{classes[min(empty)]} has no readable photo: add some or remove the folder")
    names = tuple(folder.name for folder in classes)
    return ImageSet(torch.from_numpy(np.stack(images)), torch.tensor(labels), names)
