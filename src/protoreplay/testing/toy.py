"""Images that need no data set."""

import torch

from protoreplay.encoders.registry import ImageShape
from protoreplay.streams.stream import Task

TOY_CLASSES = 10
"""Labels of toy tasks are below this."""


def toy_task(
    position: int,
    classes: tuple[int, ...],
    shots: int = 4,
    image_shape: ImageShape = (1, 8, 8),
    seed: int | None = None,
) -> Task:
    """A task of noisy stripes, one pattern a class, its images in random order.

    Args:
        position: in the stream, from 1.
        classes: ascending, below `TOY_CLASSES`.
        shots: images of each class.
        image_shape: channels, height, width.
        seed: of the noise and the order; the position by default.
    """
    random = torch.Generator().manual_seed(position if seed is None else seed)
    labels = torch.tensor(classes).repeat(shots)[torch.randperm(shots * len(classes), generator=random)]
    channels, height, width = image_shape
    columns = torch.arange(width)
    patterns = torch.stack([((columns * (c + 1)) % 11 > 5).float() * 150 for c in range(TOY_CLASSES)])
    images = patterns[labels][:, None, None, :].expand(-1, channels, height, -1)
    noise = torch.randint(0, 100, images.shape, generator=random)
    return Task(position, classes, (images + noise).to(torch.uint8), labels)
