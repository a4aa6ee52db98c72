"""EfficientNet-Lite 0 to 2 as an ONNX graph: inverted residuals with ReLU6, no squeeze-and-excitation.

The weights are Google's, trained on ImageNet with TensorFlow; they ship inside small packages of their own. Hence the
padding: where an image is halved, TensorFlow puts the odd pixel to the right and the bottom. Batch normalisation is
folded into the convolutions: the same features with one pass less over the pixels.

The features are two distributions side by side: how active each of the last layer's channels is, and, softened and
weighted less, how likely each class of ImageNet is.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import onnx

from protoreplay.core.errors import UserError
from protoreplay.encoders import onnx_graph
from protoreplay.encoders.efficientnet_weights import MEAN, STD, weights_path
from protoreplay.encoders.pth_file import read_tensors

# Of each stage: blocks, kernel, stride, expansion, channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
SCALES = {"lite0": (1.0, 1.0), "lite1": (1.0, 1.1), "lite2": (1.1, 1.2)}
"""Factors of channels and of blocks."""
FIRST_CHANNELS, CHANNELS, CLASSES = 32, 1280, 1000
SOFTNESS, SHARE = 2.0, 0.5
"""Temperature of the probabilities among the features, and their weight beside the channels; chosen on training images
(docs/photos.md)."""
EPSILON = 1e-3
"""What batch normalisation adds to variances."""

Floats32 = npt.NDArray[np.float32]


def lite_graph(name: str, size: int) -> onnx.ModelProto:
    """The network `lite0`, `lite1` or `lite2` with its weights, from `pixels` at `size` to `features`, N x 2280.

    Sides of images must be multiples of 32.
    """
    path = weights_path(name)
    network = _Network(read_tensors(path).values())
    try:
        return network.graph(*SCALES[name], size)
    except (StopIteration, ValueError):
        raise UserError(f"{path} does not contain the weights of {name}: reinstall its package") from None


def layer_plan(wider: float, deeper: float) -> Iterator[tuple[int, int, int, int]]:
    """Of each block after the first convolution: channels of its output, kernel, stride, expansion."""
    for number, (blocks, kernel, stride, expansion, base) in enumerate(STAGES):
        ends = number in (0, len(STAGES) - 1)
        for index in range(blocks if ends else math.ceil(blocks * deeper)):
            yield _round_channels(base * wider), kernel, 1 if index else stride, expansion


def tensorflow_padding(kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after an even side: of one that is halved, `kernel - 2` are added, the odd one at the end."""
    return (kernel - stride) // 2, (kernel - stride + 1) // 2


def folded(weight: Floats32, scale: Floats32, shift: Floats32, mean: Floats32, variance: Floats32) -> list[Floats32]:
    """Weight, O x I x K x K, and bias, O, of a convolution that normalises its output by the other four, O each.

    In PyTorch's order (`torch.nn.utils.fuse_conv_bn_eval`) and precision, so that the numbers are the same to the bit.
    """
    root = np.float32(1) / np.sqrt(variance + np.float32(EPSILON))
    return [weight * (scale * root)[:, None, None, None], -mean * root * scale + shift]


class _Network:
    """Weights in the order of the forward pass, which is that of their file: names need not be compared, shapes are."""

    def __init__(self, tensors: Iterable[npt.NDArray[np.generic]]) -> None:
        self._tensors = iter(tensors)
        self._builder = onnx_graph.GraphBuilder()

    def graph(self, wider: float, deeper: float, size: int) -> onnx.ModelProto:
        make = self._builder
        x, channels = (
            self._conv(onnx_graph.normalise(make, [MEAN] * 3, [STD] * 3), 3, FIRST_CHANNELS, 3, 2),
            FIRST_CHANNELS,
        )
        for outputs, kernel, stride, expansion in layer_plan(wider, deeper):
            x = self._block(x, channels, outputs, kernel, stride, expansion)
            channels = outputs
        x = self._conv(x, channels, CHANNELS)
        active = make.add("Flatten", make.add("GlobalAveragePool", x), axis=1)
        weight, bias = self._next(CLASSES, CHANNELS), self._next(CLASSES)
        if next(self._tensors, None) is not None:
            raise ValueError("more weights than layers")
        scores = make.add("MatMul", active, make.constant(weight.T / SOFTNESS))
        scores = make.add("Add", scores, make.constant(bias / SOFTNESS))
        likely = make.add("Mul", make.add("Softmax", scores, axis=1), make.constant(SHARE))
        shares = make.add("LpNormalization", active, p=1, axis=1)
        make.add("Concat", shares, likely, output="features", axis=1)
        return make.model([onnx_graph.pixels(size)], [onnx_graph.value("features", "N", CHANNELS + CLASSES)])

    def _block(self, x: str, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> str:
        """An inverted residual: expand, filter each channel by itself, project; a shortcut where shapes allow."""
        inner = inputs * expansion
        y = self._conv(x, inputs, inner) if expansion > 1 else x
        y = self._conv(y, inner, inner, kernel, stride, groups=inner)
        y = self._conv(y, inner, outputs, relu=False)
        return self._builder.add("Add", y, x) if stride == 1 and inputs == outputs else y

    def _conv(
        self, x: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> str:
        make = self._builder
        weight = self._next(outputs, inputs // groups, kernel, kernel)
        norm = [self._next(outputs) for _ in range(4)]
        next(self._tensors)  # how many batches the normalisation has seen
        start, end = tensorflow_padding(kernel, stride)
        constants = [make.constant(array) for array in folded(weight, *norm)]
        y = make.add("Conv", x, *constants, strides=[stride, stride], pads=[start, start, end, end], group=groups)
        return make.add("Clip", y, make.constant(0), make.constant(6)) if relu else y

    def _next(self, *shape: int) -> Floats32:
        tensor = next(self._tensors)
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise ValueError("weights of another network")
        return tensor.astype(np.float32, copy=False)


def _round_channels(channels: float) -> int:
    """To a multiple of 8, but not more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
