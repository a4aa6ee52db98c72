"""EfficientNet-Lite 0 to 2 in plain PyTorch: what the ONNX graph is tested against, and how fast an eager loop is."""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from protoreplay.encoders.efficientnet import CHANNELS, CLASSES, SCALES, SHARE, SOFTNESS, STAGES
from protoreplay.encoders.efficientnet_weights import MEAN, STD, weights_path


class ConvNorm(nn.Module):
    """A convolution padded as TensorFlow pads, batch normalisation, and ReLU6 where wanted."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True):
        super().__init__()
        # Of an even side that is halved, `kernel - 2` pixels are added: one more at the end than at the start.
        start, end = self.padding = ((kernel - stride) // 2, (kernel - stride + 1) // 2)
        self.pad = nn.Identity() if start == end else nn.ZeroPad2d((start, end, start, end))
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, start if start == end else 0, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs, eps=1e-3)
        self.relu = nn.ReLU6(inplace=True) if relu else nn.Identity()

    def fold(self) -> None:
        """Move the normalisation into the convolution: the same answers with one pass less over the pixels."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.norm)
            self.norm = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W to N x outputs x H / stride x W / stride."""
        return self.relu(self.norm(self.conv(self.pad(x))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """An inverted residual: expand, filter each channel by itself, project; around it a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        inner = inputs * expansion
        expand = [ConvNorm(inputs, inner)] if expansion > 1 else []
        depthwise = ConvNorm(inner, inner, kernel, stride, groups=inner)
        self.layers = nn.Sequential(*expand, depthwise, ConvNorm(inner, outputs, relu=False))
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W to N x outputs x H / stride x W / stride."""
        y: Tensor = self.layers(x)
        return y + x if self.shortcut else y


class EfficientNetLite(nn.Module):
    """The network; sides of images must be multiples of 32.

    Its features are two distributions side by side: how active each of the last layer's channels is, and, softened and
    weighted less, how likely each class of ImageNet is.

    Args:
        name: a name of `SCALES`.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        wider, deeper = SCALES[name]
        channels = 32
        layers: list[nn.Module] = [ConvNorm(3, channels, 3, 2)]
        for number, (blocks, kernel, stride, expansion, base) in enumerate(STAGES):
            outputs = _round_channels(base * wider)
            last = number in (0, len(STAGES) - 1)
            for index in range(blocks if last else math.ceil(blocks * deeper)):
                layers.append(Block(channels, outputs, kernel, 1 if index else stride, expansion))
                channels = outputs
        self.layers = nn.Sequential(*layers, ConvNorm(channels, CHANNELS))
        self.classify = nn.Linear(CHANNELS, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels of 0..255, N x 3 x H x W, as floats, to features that are never negative, N x 2280."""
        active = self.layers((pixels - MEAN) / STD).mean((2, 3))
        likely = (self.classify(active) / SOFTNESS).softmax(1)
        return torch.cat([nn.functional.normalize(active, p=1), SHARE * likely], 1)

    def fold(self) -> None:
        """Move all normalisations into their convolutions."""
        for module in self.modules():
            if isinstance(module, ConvNorm):
                module.fold()


def load(name: str) -> EfficientNetLite:
    """The network with the weights of its package, in evaluation mode; a `UserError` where the package is missing."""
    weights = torch.load(weights_path(name), map_location="cpu", weights_only=True)
    with torch.device("meta"):
        network = EfficientNetLite(name)
    # Both are in the order of the forward pass, so names need not be compared; shapes are.
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)), assign=True)
    return network.eval().requires_grad_(False)


def _round_channels(channels: float) -> int:
    """To a multiple of 8, but not more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
