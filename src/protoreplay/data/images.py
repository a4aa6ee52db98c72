"""The one form in which images travel through the package."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImageSet:
    """Labelled images.

    Attributes:
        images: uint8, N x C x H x W. Normalisation happens on the way into the encoder.
        labels: int64, N; each an index into `class_names`.
        class_names: one name per class.
    """

    images: Tensor
    labels: Tensor
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        # Refuse what would fail later in a less obvious place.
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ValueError(f"images must be uint8, N x C x H x W, not {self.images.dtype} {tuple(self.images.shape)}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(f"labels must be int64, one per image, not {self.labels.dtype} {tuple(self.labels.shape)}")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.class_names):
            raise ValueError("a label has no class name")

    def __len__(self) -> int:
        return len(self.labels)


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
