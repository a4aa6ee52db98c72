"""A trunk with a linear layer on top: what methods train."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from protoreplay.core.errors import UserError
from protoreplay.core.rng import borrowed
from protoreplay.encoders.registry import ImageShape, trunk

MakeTrunk = Callable[[ImageShape], nn.Module]

LOGVAR_BOUND = 70.0
"""Log-variances end here: nothing in VPR's loss holds them, and over many tasks their exponentials would overflow."""


class Network(nn.Module):
    """An encoder trunk with one linear layer on top.

    The layer's outputs are class scores (`forward`), or, where `outputs` is twice the latent dimension, the mean and
    the log-variance of the image's distribution (`gaussian`). It is in evaluation mode except within `training_mode`.

    Args:
        encoder: the name of a trunk, or what makes one from an image shape; each of its parameters and buffers starts
            as its own module says.
        shape: channels, height, width of the images.
        outputs: width of the linear layer.
        generator: all initial weights are drawn from it; the global random state is neither read nor changed.
    """

    def __init__(self, encoder: str | MakeTrunk, shape: ImageShape, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        make, name = (trunk(encoder), encoder) if isinstance(encoder, str) else (encoder, encoder.__name__)
        with borrowed(generator):
            self.trunk: nn.Module = make(shape)
            self.head = nn.Linear(check_trunk(self.trunk, name, shape), outputs)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to N x outputs."""
        with _without_batch_statistics(self if self.training and len(images) == 1 else None):
            return cast(Tensor, self.head(self.trunk(images)))

    def gaussian(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels of 0..255, N x C x H x W, to mean and log-variance, each N x (outputs / 2)."""
        return as_gaussian(self(images))

    @contextlib.contextmanager
    def training_mode(self, frozen_trunk: bool = False) -> Iterator[None]:
        """Train within: batch normalisation uses its batch, if that is more than one image, and dropout drops.

        With `frozen_trunk` the last layer alone is trained: the trunk gives what it gives when it is asked.
        """
        self.train()
        trained = [weight for weight in self.trunk.parameters() if weight.requires_grad] if frozen_trunk else []
        if frozen_trunk:
            self.trunk.eval()
        for weight in trained:
            weight.requires_grad_(False)
        try:
            yield
        finally:
            self.eval()
            for weight in trained:
                weight.requires_grad_(True)

    def frozen_copy(self) -> "Network":
        """The network as it is now, in evaluation mode, for good: a teacher."""
        return copy.deepcopy(self).eval().requires_grad_(False)


@contextlib.contextmanager
def _without_batch_statistics(network: nn.Module | None) -> Iterator[None]:
    """Within, batch normalisation of `network` uses what it has seen so far, and does not add to it.

    One image has no variance: PyTorch refuses it where a channel is one number, and where it is a few, the image would
    be compared with itself alone.
    """
    layers = [] if network is None else [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
    layers = [layer for layer in layers if layer.training]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()


def as_gaussian(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and bounded log-variance, each N x D, of a network's outputs, N x 2 D."""
    mean, logvar = outputs.chunk(2, dim=1)
    return mean, logvar.clamp(-LOGVAR_BOUND, LOGVAR_BOUND)


@torch.no_grad()
def check_trunk(trunk: nn.Module, name: str, shape: ImageShape) -> int:
    """How many features the trunk gives; a `UserError` for what is no trunk."""
    if not isinstance(trunk, nn.Module):
        raise UserError(f"encoder {name} returns a {type(trunk).__name__}, not a torch.nn.Module")
    try:
        features = trunk.eval()(torch.zeros(1, *shape, dtype=torch.uint8))
    except Exception as error:  # a network of the user's may raise anything
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"encoder {name} fails on a uint8 image of shape {shape}: {what}") from None
    if not isinstance(features, Tensor) or features.ndim != 2 or not features.is_floating_point():
        given = f"shape {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise UserError(f"encoder {name} must return floats, N x D, not {given}: flatten its output")
    return features.shape[1]
