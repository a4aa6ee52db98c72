"""The one form in which images travel through the package."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class ImageSet:
    """Labelled images.

    NumPy arrays are taken too: images of uint8 also as N x H x W and N x H x W x C, labels of any integer type.

    Attributes:
        images: uint8, N x C x H x W. Normalisation happens on the way into the encoder.
        labels: int64, N; each an index into `class_names`.
        class_names: one name per class.
    """

    images: Tensor
    labels: Tensor
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.images, np.ndarray):
            object.__setattr__(self, "images", _image_tensor(self.images))
        if isinstance(self.labels, np.ndarray):
            if not np.issubdtype(self.labels.dtype, np.integer):
                raise ValueError(f"labels must be integers, not {self.labels.dtype}")
            object.__setattr__(self, "labels", torch.from_numpy(self.labels.astype(np.int64)))
        object.__setattr__(self, "class_names", tuple(self.class_names))
        # Refuse what would fail later in a less obvious place.
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ValueError(f"images must be uint8, N x C x H x W, not {self.images.dtype} {tuple(self.images.shape)}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(f"labels must be int64, one per image, not {self.labels.dtype} {tuple(self.labels.shape)}")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.class_names):
            raise ValueError("a label has no class name")

    def __len__(self) -> int:
        return len(self.labels)


def _image_tensor(images: NDArray[Any]) -> Tensor:
    """Images in one of the usual layouts as N x C x H x W; other types are refused by who asks, not converted."""
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.dtype != np.uint8:
        raise ValueError(f"images must be uint8, 0 to 255, not {images.dtype}")
    return torch.from_numpy(np.array(images))  # a copy: the caller's may be read-only, or change


@dataclass(frozen=True)
class Dataset:
    """A training and a test `ImageSet` over the same classes.

    Attributes:
        name: as people call it.
        train: the training images.
        test: the test images.
        whole: both in one, training images first, where they lie so in the file.
        files: the file names of `whole`'s images, where they are known.
    """

    name: str
    train: ImageSet
    test: ImageSet
    whole: ImageSet | None = None
    files: Callable[[], tuple[str, ...]] | None = None

    def joined(self) -> ImageSet:
        """All images in one, training images first; not copied where they lie so in the file."""
        if self.whole is not None:
            return self.whole
        images, labels = (
            torch.cat([getattr(part, f) for part in (self.train, self.test)]) for f in ("images", "labels")
        )
        return ImageSet(images, labels, self.train.class_names)
