"""Trunks of the networks that are trained: images to features, as the paper and its small siblings use them."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from protoreplay.encoders.registry import ImageShape


class CentredPixels(nn.Module):
    """Pixels of 0..255, N x C x H x W, to floats in [-1, 1]: by constants, so no image but the given is needed.

    Channels lie last in memory: convolutions keep that, and pooling is then several times as fast.
    """

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to the same shape, float32."""
        return images.to(torch.float32, memory_format=torch.channels_last) / 127.5 - 1


class UnitPixels(nn.Module):
    """Pixels of 0..255, N x C x H x W, to floats in [0, 1].

    A pixel that is black takes no part, and what a task does not use stays free for others: where pixels come in
    another order with every task, regularisers then forget far less.
    """

    def forward(self, images: Tensor) -> Tensor:
        """N x C x H x W to the same shape, float32."""
        return images / 255.0


# Pooling stands before the threshold: the same numbers, a quarter of them to threshold.
def _two_convolutions(shape: ImageShape, side: int, filters: tuple[int, int], hidden: int) -> nn.Sequential:
    channels, height, width = shape
    return nn.Sequential(
        CentredPixels(),
        nn.Conv2d(channels, filters[0], side, padding=side // 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(*filters, side, padding=side // 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(filters[1] * (height // 4) * (width // 4), hidden),
        nn.ReLU(),
    )


def _two_hidden_layers(shape: ImageShape, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        UnitPixels(),
        nn.Flatten(),
        nn.Linear(math.prod(shape), hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
    )


def conv_small(shape: ImageShape) -> nn.Sequential:
    """Two 3 x 3 convolutions and a hidden layer of 64, for the 8 x 8 digits."""
    return _two_convolutions(shape, 3, (16, 32), 64)


def lenet(shape: ImageShape) -> nn.Sequential:
    """The paper's network for CIFAR-10: two 5 x 5 convolutions of 20 and 50, each pooled, and a hidden layer of 500."""
    return _two_convolutions(shape, 5, (20, 50), 500)


def mlp_small(shape: ImageShape) -> nn.Sequential:
    """Two hidden layers of 128, for permuted digits."""
    return _two_hidden_layers(shape, 128)


def mlp_1000(shape: ImageShape) -> nn.Sequential:
    """The paper's network for permuted MNIST: two hidden layers of 1000."""
    return _two_hidden_layers(shape, 1000)


def conv5(shape: ImageShape) -> nn.Sequential:
    """The paper's network for mini-ImageNet: five 3 x 3 convolutions, four pooled, and a hidden layer of 500."""
    channels, height, width = shape
    layers: list[nn.Module] = [CentredPixels()]
    for number, filters in enumerate((64, 128, 128, 256, 256)):
        layers.append(nn.Conv2d(channels, filters, 3, padding=1))
        layers += [nn.MaxPool2d(2), nn.ReLU()] if number < 4 else [nn.ReLU()]
        channels = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (height // 16) * (width // 16), 500), nn.ReLU())


def with_batch_norm(trunk: nn.Sequential) -> nn.Sequential:
    """The same layers, with the outputs of each convolution and linear layer normalised over the batch."""
    layers: list[nn.Module] = []
    for layer in trunk:
        layers.append(layer)
        if isinstance(layer, nn.Conv2d):
            layers.append(nn.BatchNorm2d(layer.out_channels))
        elif isinstance(layer, nn.Linear):
            layers.append(nn.BatchNorm1d(layer.out_features))
    return nn.Sequential(*layers)


def lenet_bn(shape: ImageShape) -> nn.Sequential:
    """`lenet` with batch normalisation, as in the released code of the paper."""
    return with_batch_norm(lenet(shape))


def mlp_1000_bn(shape: ImageShape) -> nn.Sequential:
    """`mlp_1000` with batch normalisation, as in the released code of the paper."""
    return with_batch_norm(mlp_1000(shape))


def conv5_bn(shape: ImageShape) -> nn.Sequential:
    """`conv5` with batch normalisation, as in the released code of the paper."""
    return with_batch_norm(conv5(shape))


def feature_rows(shape: ImageShape) -> nn.Sequential:
    """Features, N x D x 1 x 1, as they are but for their size: each image's have mean 0 and variance 1."""
    return nn.Sequential(nn.Flatten(), _Floats(), nn.LayerNorm(math.prod(shape), elementwise_affine=False))


def feature_mlp(shape: ImageShape) -> nn.Sequential:
    """A hidden layer of 256 on `feature_rows`."""
    return nn.Sequential(feature_rows(shape), nn.Linear(math.prod(shape), 256), nn.ReLU())


class _Floats(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return features.to(torch.float32)


FEATURE_TRUNKS: dict[str, Callable[[ImageShape], nn.Module]] = {"linear": feature_rows, "mlp": feature_mlp}
"""What methods that train have in place of a trunk where a frozen encoder gives them features."""
