"""EfficientNet-Lite as an ONNX graph, with batch normalisation folded into the convolutions."""

import onnx
from torch import nn

from protoreplay.encoders import onnx_graph
from protoreplay.encoders.efficientnet import CHANNELS, CLASSES, SHARE, SOFTNESS, Block, ConvNorm, load
from protoreplay.encoders.efficientnet_weights import MEAN, STD


def convert(name: str, size: int) -> onnx.ModelProto:
    """The network `lite0`, `lite1` or `lite2` with its weights, from `pixels` at `size` to `features`."""
    network = load(name)
    network.fold()
    builder = onnx_graph.Builder()
    x = onnx_graph.normalise(builder, [MEAN] * 3, [STD] * 3)
    for layer in network.layers:
        x = _block(builder, layer, x) if isinstance(layer, Block) else _conv(builder, layer, x)
    active = builder.add("Flatten", builder.add("GlobalAveragePool", x), axis=1)
    classes = network.classify
    scores = builder.add("MatMul", active, builder.constant(classes.weight.numpy().T / SOFTNESS))
    scores = builder.add("Add", scores, builder.constant(classes.bias.numpy() / SOFTNESS))
    likely = builder.add("Mul", builder.add("Softmax", scores, axis=1), builder.constant(SHARE))
    shares = builder.add("LpNormalization", active, p=1, axis=1)
    builder.add("Concat", shares, likely, output="features", axis=1)
    return builder.model([onnx_graph.pixels(size)], [onnx_graph.value("features", "N", CHANNELS + CLASSES)])


def _block(builder: onnx_graph.Builder, block: Block, x: str) -> str:
    y = x
    for layer in block.layers:
        y = _conv(builder, layer, y)
    return builder.add("Add", y, x) if block.shortcut else y


def _conv(builder: onnx_graph.Builder, layer: nn.Module, x: str) -> str:
    assert isinstance(layer, ConvNorm)
    conv = layer.conv
    assert conv.bias is not None
    weights = [builder.constant(parameter.numpy()) for parameter in (conv.weight, conv.bias)]
    start, end = layer.padding
    pads = [start, start, end, end]
    y = builder.add("Conv", x, *weights, strides=list(conv.stride), pads=pads, group=conv.groups)
    return builder.add("Clip", y, builder.constant(0), builder.constant(6)) if isinstance(layer.relu, nn.ReLU6) else y
