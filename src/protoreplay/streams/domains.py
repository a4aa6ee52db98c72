"""What is done to the images of an incremental-domain task: pixels in another order, turned, or out of focus."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def rotated(images: Tensor, degrees: float) -> Tensor:
    """Images turned against the clock about their middle, uint8, N x C x H x W; what comes in from outside is black.

    Quarter turns move pixels and change none; other angles take the mean of the four nearest ones.
    """
    if not degrees:
        return images
    if degrees % 90 == 0:
        return images.rot90(int(degrees // 90), (2, 3)).contiguous()
    angle = math.radians(degrees)
    turn = torch.tensor([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]])
    shape = (1, 1, *images.shape[2:])
    grid = functional.affine_grid(turn[None], list(shape), align_corners=False)
    return _in_parts(
        images, lambda part: functional.grid_sample(part, grid.expand(len(part), -1, -1, -1), align_corners=False)
    )


def blurred(images: Tensor, deviation: float) -> Tensor:
    """Images behind a Gaussian of this standard deviation in pixels, uint8, N x C x H x W; edges are repeated."""
    if not deviation:
        return images
    # Three deviations hold all but 0.3 % of a Gaussian.
    reach = max(1, math.ceil(3 * deviation))
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * deviation**2))
    weights = weights / weights.sum()

    def convolve(part: Tensor) -> Tensor:
        count, channels, height, width = part.shape
        planes = functional.pad(part.view(-1, 1, height, width), [reach] * 4, mode="replicate")
        planes = functional.conv2d(functional.conv2d(planes, weights.view(1, 1, 1, -1)), weights.view(1, 1, -1, 1))
        return planes.view(count, channels, height, width)

    return _in_parts(images, convolve)


def _in_parts(images: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """`change` on real numbers, some images at a time: 60,000 of them at once would take a gigabyte."""
    parts = [change(part.float()).round_().clamp_(0, 255).to(torch.uint8) for part in images.split(4096)]
    return torch.cat(parts) if parts else images
