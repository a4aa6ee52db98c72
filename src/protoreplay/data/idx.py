"""The IDX format of MNIST and of the datasets made in its image: four files of one size of image."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from protoreplay.data.sources import check_digests

IDX_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}


def idx_tensors(files: Mapping[str, bytes], digests: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors of the four files, by the names of `IDX_FILES`, after a look at their published digests."""
    check_digests(files, digests)
    return {key: _from_idx(files[name]) for key, name in IDX_FILES.items()}


def _from_idx(content: bytes) -> Tensor:
    """The bytes of an IDX file: labels N, or images N x 1 x 28 x 28."""
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, offset=4).tolist()
    tensor = torch.from_numpy(np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())
    return tensor.unsqueeze(1) if tensor.ndim == 3 else tensor
