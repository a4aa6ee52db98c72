"""Features of images that are never trained: what the floors and the streaming discriminant stand on."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.encoders import ImageShape, Network
from protoreplay.methods.base import EncoderName
from protoreplay.settings import Settings

SIDE, STRIDE = 6, 2
CHUNK = 32


class FeatureSettings(Settings):
    """Settings of every method that stands on untrained features."""

    features: Literal["pixels", "random", "encoder"] = "pixels"
    """Raw pixels, random convolutions, or the trunk of the untrained encoder; the last two of unit length."""
    filters: int = Field(800, ge=1)
    """Number of random filters (ours: 800)."""
    encoder: EncoderName = "conv-small"
    """The trunk of `encoder` features; the protocol prescribes it."""


class Pixels(nn.Module):
    """Pixels of 0..255 as they are, from 0 to 1."""

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to N x C*H*W."""
        return images.flatten(1).to(torch.float32) / 255


class RandomFilters(nn.Module):
    """Random 6 x 6 filters in steps of two pixels, rectified, averaged over each quarter of the image, of unit length.

    The filters could be drawn again from the seed; they are kept, so that a model is complete without it.
    """

    filters: Tensor

    def __init__(self, shape: ImageShape, filters: int, generator: torch.Generator) -> None:
        """Draw the filters."""
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


class Trunk(nn.Module):
    """The encoder before any training, without its head; of unit length."""

    def __init__(self, encoder: str, shape: ImageShape, generator: torch.Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.trunk = Network(encoder, shape, 1, generator).trunk

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to N x D."""
        return functional.normalize(self.trunk(images))


def extractor(config: FeatureSettings, shape: ImageShape, generator: torch.Generator) -> tuple[nn.Module, int]:
    """The features that `config` names, and how many numbers of an image they are."""
    if config.features == "pixels":
        module: nn.Module = Pixels()
    elif config.features == "random":
        module = RandomFilters(shape, config.filters, generator)
    else:
        module = Trunk(config.encoder, shape, generator)
    module.requires_grad_(False)
    return module, module(torch.zeros(1, *shape)).shape[1]
