"""What methods on untrained features share: which features, and how they are made."""

from typing import Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from protoreplay.core.settings import Settings
from protoreplay.encoders.fixed import RandomFilters, RawPixels, UntrainedTrunk
from protoreplay.encoders.registry import ImageShape
from protoreplay.methods.base import EncoderName, Method, MethodContext
from protoreplay.prototypes.gaussians import ClassMeans

LARGEST_BATCH = 2**26
"""Numbers of pixels that go through a trunk together."""
PART = 256
"""Images at a time where there are more."""


class FeatureSettings(Settings):
    """Settings of every method that stands on untrained features."""

    features: Literal["pixels", "random", "encoder"] = "pixels"
    """Raw pixels, random convolutions, or the trunk of the untrained encoder; the last two of unit length."""
    filters: int = Field(800, ge=1)
    """Number of random filters (ours: 800)."""
    encoder: EncoderName = "conv-small"
    """The trunk of `encoder` features; the protocol prescribes it."""


def extractor(config: FeatureSettings, shape: ImageShape, generator: torch.Generator) -> tuple[nn.Module, int]:
    """The features that `config` names, and how many numbers of an image they are."""
    if config.features == "pixels":
        module: nn.Module = RawPixels()
    elif config.features == "random":
        module = RandomFilters(shape, config.filters, generator)
    else:
        module = UntrainedTrunk(config.encoder, shape, generator)
    module.requires_grad_(False)
    return module, module(torch.zeros(1, *shape, dtype=torch.uint8)).shape[1]


F = TypeVar("F", bound=FeatureSettings)


class FixedFeatureMethod(Method[F]):
    """A method on features that nothing trains.

    It carries what makes them, and a mean for every class of every task.
    """

    frozen = True

    def __init__(self, config: F, context: MethodContext) -> None:
        super().__init__(config, context)
        body, width = extractor(config, context.image_shape, self.initial_weights())
        self.features = self.carry("features", body.to(self.device))
        self.prototypes = self.carry("prototypes", ClassMeans.none(width, self.device))

    @property
    def deterministic(self) -> bool:
        """Pixels are the same with every seed."""
        return self.config.features == "pixels"

    def _features(self, images: Tensor) -> Tensor:
        """Of images, uint8 N x C x H x W, the features, N x D."""
        # In one go, as ever, unless a trunk's activations would fill the memory: a base session of 84 pixels does.
        parts = images.split(PART if images.numel() > LARGEST_BATCH else max(1, len(images)))
        features: Tensor = (
            self.features(images) if len(parts) == 1 else torch.cat([self.features(part) for part in parts])
        )
        return features
