"""Augmentation of a whole batch on tensors; every image has draws of its own."""

import math

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.core.settings import Settings


class AugmentationSettings(Settings):
    """How training images are changed each time they are met; all off by default."""

    augment_shift: int = Field(0, ge=0)
    """Shift by up to this many pixels in each direction; the border is filled by reflection."""
    augment_flip: bool = False
    """Flip horizontally with probability one half."""
    augment_colour: float = Field(0.0, ge=0, le=1)
    """Maximum relative change of brightness, contrast and, in colour images, saturation."""
    augment_hue: float = Field(0.0, ge=0, le=math.pi, exclude_if=lambda value: value == 0)
    """Rotate the hue of colour images by up to this angle, in radians."""
    augment_erase: float = Field(0.0, ge=0, le=1)
    """Side of a randomly placed grey square, as a fraction of the image's side."""


def augment(images: Tensor, settings: AugmentationSettings, generator: torch.Generator) -> Tensor:
    """The images as a training step meets them.

    Args:
        images: uint8, N x C x H x W.
        settings: what to do; where all is off, the images are returned as they are and nothing is drawn.
        generator: of the CPU, whatever the images' device.

    Returns:
        The same shape; float32 within 0..255 if anything was done.
    """
    if settings.augment_shift:
        images = _shift(images, settings.augment_shift, generator)
    if settings.augment_flip:
        mirrored = _uniform(images, generator) < 0.5
        images = torch.where(mirrored, images.flip(-1), images)
    if settings.augment_hue and images.shape[1] == 3:
        images = _hue(images.float(), settings.augment_hue, generator)
    if settings.augment_colour:
        images = _colour(images.float(), settings.augment_colour, generator)
    if settings.augment_erase:
        images = _erase(images, settings.augment_erase, generator)
    return images


def _uniform(images: Tensor, generator: torch.Generator, low: float = 0.0, high: float = 1.0) -> Tensor:
    """One number an image, N x 1 x 1 x 1."""
    drawn = torch.rand(len(images), 1, 1, 1, generator=generator).to(images.device)
    return low + (high - low) * drawn


def _shift(images: Tensor, reach: int, generator: torch.Generator) -> Tensor:
    height, width = images.shape[-2:]
    reach = min(reach, height - 1, width - 1)
    padded = functional.pad(images.float(), (reach, reach, reach, reach), mode="reflect")
    corner = torch.randint(0, 2 * reach + 1, (2, len(images), 1), generator=generator)
    rows = (corner[0] + torch.arange(height)).to(images.device)
    columns = (corner[1] + torch.arange(width)).to(images.device)
    image = torch.arange(len(images), device=images.device)[:, None, None]
    return padded.movedim(1, -1)[image, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def _colour(images: Tensor, reach: float, generator: torch.Generator) -> Tensor:
    images = images * _uniform(images, generator, 1 - reach, 1 + reach)
    middle = images.mean((1, 2, 3), keepdim=True)
    images = middle + (images - middle) * _uniform(images, generator, 1 - reach, 1 + reach)
    if images.shape[1] == 3:
        grey = images.mean(1, keepdim=True)
        images = grey + (images - grey) * _uniform(images, generator, 1 - reach, 1 + reach)
    return images.clamp(0, 255)


def _hue(images: Tensor, reach: float, generator: torch.Generator) -> Tensor:
    """Colours turned around the axis of greys, which stay what they are, as does each pixel's mean."""
    angle = _uniform(images, generator, -reach, reach)
    grey = images.mean(1, keepdim=True)
    colour = images - grey
    across = (colour.roll(1, 1) - colour.roll(-1, 1)) / math.sqrt(3)
    return (grey + angle.cos() * colour + angle.sin() * across).clamp_(0, 255)


def _erase(images: Tensor, share: float, generator: torch.Generator) -> Tensor:
    sides = images.shape[-2:]
    inside = []
    for axis, side in enumerate(sides):
        length = round(share * side)
        first = (_uniform(images, generator) * (side - length + 1)).floor()
        place = torch.arange(side, device=images.device).view((-1, 1) if axis == 0 else (1, -1))
        inside.append((place >= first) & (place < first + length))
    return torch.where(inside[0] & inside[1], 127.5, images.float())
