"""A trunk with a linear layer on top: what methods train."""

from typing import cast

import torch
from torch import Tensor, nn

from protoreplay.encoders.trunks import ENCODERS, ImageShape

LOGVAR_BOUND = 70.0
"""Log-variances end here: nothing in VPR's loss holds them, and over many tasks their exponentials would overflow."""


class Network(nn.Module):
    """An encoder trunk with one linear layer on top.

    The layer's outputs are class scores (`forward`), or, where `outputs` is twice the latent dimension, the mean and
    the log-variance of the image's distribution (`gaussian`).

    Args:
        encoder: a name of `ENCODERS`.
        shape: channels, height, width of the images.
        outputs: width of the linear layer.
        generator: all initial weights are drawn from it; the global random state is neither read nor changed.
    """

    def __init__(self, encoder: str, shape: ImageShape, outputs: int, generator: torch.Generator) -> None:
        """Build the layers without memory first, then draw their weights."""
        super().__init__()
        with torch.device("meta"):
            self.trunk = ENCODERS[encoder](shape)
            width = next(m.out_features for m in reversed(self.trunk) if isinstance(m, nn.Linear))
            self.head = nn.Linear(width, outputs)
        self.to_empty(device="cpu")
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                _draw_weights(module, generator)

    def forward(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to N x outputs."""
        return cast(Tensor, self.head(self.trunk(images)))

    def gaussian(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels of 0..255, N x C x H x W, to mean and log-variance, each N x (outputs / 2)."""
        return as_gaussian(self(images))


def as_gaussian(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and bounded log-variance, each N x D, of a network's outputs, N x 2 D."""
    mean, logvar = outputs.chunk(2, dim=1)
    return mean, logvar.clamp(-LOGVAR_BOUND, LOGVAR_BOUND)


@torch.no_grad()
def _draw_weights(layer: nn.Linear | nn.Conv2d, generator: torch.Generator) -> None:
    """PyTorch's default initialisation: weights and biases uniform within 1 / sqrt(inputs of a unit)."""
    bound = layer.weight[0].numel() ** -0.5
    layer.weight.uniform_(-bound, bound, generator=generator)
    if layer.bias is not None:
        layer.bias.uniform_(-bound, bound, generator=generator)
