"""ONNX graphs: a network of ours as one, and what is put before and behind any network.

Every encoder ends up as one graph from pixels (`pixels`: uint8, N x 3 x S x S) to features (`features`: float32,
N x D), because onnxruntime runs it about three times as fast as PyTorch does on a CPU, and because the exported
classifier is then that very graph with a head behind it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from protoreplay.core.errors import UserError

OPSET = 17
OLDEST_OPSET = 13
"""Before it, softmax and sums over an axis were written differently."""


class GraphBuilder:
    """Collects nodes and constants; `add` names each node's output by its number."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """The name of a stored array."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """A node of one output; its name."""
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def model(
        self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto], opset: int = OPSET
    ) -> onnx.ModelProto:
        """The finished graph, checked."""
        graph = helper.make_graph(self.nodes, "protoreplay", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(
            graph, opset_imports=opsets, producer_name="protoreplay", ir_version=helper.find_min_ir_version_for(opsets)
        )
        onnx.checker.check_model(model)
        return model


def value(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """An input or output; a string in its shape is a side that may be any number."""
    return helper.make_tensor_value_info(name, kind, shape)


def pixels(size: int) -> onnx.ValueInfoProto:
    """The input of every encoder."""
    return value("pixels", "N", 3, size, size, kind=TensorProto.UINT8)


def normalise(builder: GraphBuilder, mean: Sequence[float], std: Sequence[float]) -> str:
    """From `pixels` to `(pixels - mean) / std`, one number a channel."""
    shape = (1, 3, 1, 1)
    floats = builder.add("Cast", "pixels", to=TensorProto.FLOAT)
    centred = builder.add("Sub", floats, builder.constant(np.reshape(mean, shape)))
    return builder.add("Div", centred, builder.constant(np.reshape(std, shape)))


def with_ends(network: onnx.ModelProto, size: int, mean: Sequence[float], std: Sequence[float]) -> onnx.ModelProto:
    """Any network from normalised images to features, with normalisation in front and flat features behind.

    Its first input is N x 3 x size x size; its first output is N x D, or maps that are averaged.
    """
    opset = opset_of(network)
    if opset < OLDEST_OPSET:
        raise UserError(f"this ONNX file uses operator set {opset}: export it again with {OLDEST_OPSET} or newer")
    first = GraphBuilder()
    first.add("Identity", normalise(first, mean, std), output="normalised")
    start = first.model([pixels(size)], [value("normalised", "N", 3, size, size)], opset)
    own = onnx.compose.add_prefix(network, "network/")
    start.ir_version = own.ir_version = max(start.ir_version, own.ir_version)
    source, target = own.graph.input[0].name, own.graph.output[0]
    whole = onnx.compose.merge_models(start, own, [("normalised", source)], outputs=[target.name])
    last = GraphBuilder()
    maps = len(target.type.tensor_type.shape.dim) == 4
    last.add("Flatten", last.add("GlobalAveragePool", target.name) if maps else target.name, output="features", axis=1)
    whole.graph.node.extend(last.nodes)
    del whole.graph.output[:]
    whole.graph.output.append(value("features", "N", "D"))
    return whole


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the standard operators it uses."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
