"""Features that nothing trains: pixels, random filters, the trunk before any training."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.encoders.network import Network
from protoreplay.encoders.registry import ImageShape

SIDE, STRIDE = 6, 2
CHUNK = 32


class RawPixels(nn.Module):
    """Pixels of 0..255 as they are, from 0 to 1."""

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to N x C*H*W."""
        return images.flatten(1).to(torch.float32) / 255


class GivenFeatures(nn.Module):
    """Features that an encoder made on the way in, N x D x 1 x 1, as they are."""

    def forward(self, features: Tensor) -> Tensor:
        """N x D x 1 x 1 to N x D."""
        return features.flatten(1).to(torch.float32)


class RandomFilters(nn.Module):
    """Random 6 x 6 filters in steps of two pixels, rectified, averaged over each quarter of the image, of unit length.

    The filters could be drawn again from the seed; they are kept, so that a model is complete without it.
    """

    filters: Tensor

    def __init__(self, shape: ImageShape, filters: int, generator: torch.Generator) -> None:
        super().__init__()
        channels, height, width = shape
        drawn = torch.randn(filters, channels, min(SIDE, height), min(SIDE, width), generator=generator)
        # Without a mean of its own a filter does not see how bright the image is.
        self.register_buffer("filters", drawn - drawn.mean((1, 2, 3), keepdim=True))

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to N x 4*filters."""
        return torch.cat([self._part(part) for part in images.split(CHUNK)])

    def _part(self, images: Tensor) -> Tensor:
        maps = functional.conv2d(images.to(torch.float32) / 255, self.filters, stride=STRIDE).relu_()
        return functional.normalize(functional.adaptive_avg_pool2d(maps, 2).flatten(1))


class UntrainedTrunk(nn.Module):
    """The encoder before any training, without its head; of unit length."""

    def __init__(self, encoder: str, shape: ImageShape, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk = Network(encoder, shape, 1, generator).trunk

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to N x D."""
        return functional.normalize(self.trunk(images))


class RootPixels(nn.Module):
    """The square root of every pixel, all of an image of unit length: for images whose pixels have no neighbours."""

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self.width = math.prod(shape)

    def fit(self, images: Tensor, generator: torch.Generator) -> None:
        """Does nothing: a body that is fitted to the first task's images is asked to, and this one need not be."""

    def forward(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to N x width."""
        return functional.normalize(images.flatten(1).to(torch.float32).sqrt())
