"""CIFAR-100: 60,000 photos of a hundred kinds of things, 3 x 32 x 32 (Krizhevsky 2009)."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.terminal import ItemProgress
from protoreplay.data import archives
from protoreplay.data.cache import DatasetContent, DatasetFile
from protoreplay.data.images import Dataset
from protoreplay.data.sources import DownloadSource, check_md5, download_file

FILE = DatasetFile("cifar100", remedy="protoreplay data get cifar100")
_FINE_LABELS = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
CLASSES = tuple(_FINE_LABELS.split())

# The binary version: the better known one for Python holds pickles, and nothing is ever unpickled here.
_WEB = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
_PUBLISHED = "03b5dce01913d631647c71ecec9e9cb8"
"""MD5 of the archive, as its page gives it."""
_NAMES = "cifar-100-binary/fine_label_names.txt"
_LARGEST = 50_000 * 3074
"""Bytes of the largest member, the training images: more than archives otherwise may hold."""


def load() -> Dataset:
    """50,000 training and 10,000 test images from the cache."""
    return FILE.dataset()


def import_archive(path: Path, progress: ItemProgress) -> None:
    """Read the published archive at `path` into the cache."""
    if not path.is_file():
        raise UserError(f"{path} is not a file: give the published cifar-100-binary.tar.gz")
    with FILE.locked(progress.say) as work:
        FILE.store(DatasetContent(_from_archive(path), CLASSES, f"a copy, {path.resolve().name}"), work)


def _from_web(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    return _from_archive(download_file(_WEB, work, progress))


def _from_archive(path: Path) -> dict[str, Tensor]:
    """A row is a byte of superclass, a byte of class and 3 x 32 x 32 bytes of pixels."""
    check_md5(path, _PUBLISHED)
    paths = {part: f"cifar-100-binary/{part}.bin" for part in ("train", "test")}
    content = archives.read_members(path, [*paths.values(), _NAMES], _LARGEST)
    if tuple(content[_NAMES].decode("ascii", "replace").split()) != CLASSES:
        raise UserError(f"{path} lists other classes in {_NAMES}")
    tensors = {}
    for part, member in paths.items():
        rows = np.frombuffer(content[member], np.uint8).reshape(-1, 3074)
        tensors[f"{part}_labels"] = torch.from_numpy(rows[:, 1].copy())
        tensors[f"{part}_images"] = torch.from_numpy(rows[:, 2:].copy()).view(-1, 3, 32, 32)
    return tensors


SOURCES = (DownloadSource("the University of Toronto", _from_web),)
