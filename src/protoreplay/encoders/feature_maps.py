"""An encoder cut in two at its average over the image: maps before it, features of any average behind it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import numpy_helper

from protoreplay.core.errors import UserError
from protoreplay.encoders import onnx_graph
from protoreplay.encoders.pretrained import Features, FrozenEncoder


class CutEncoder:
    """A frozen encoder whose last step over the image is an average of maps, as most convolutional networks have it.

    Args:
        encoder: a `UserError` if it averages no maps.
    """

    def __init__(self, encoder: FrozenEncoder) -> None:
        whole = onnx.load_model_from_string(encoder.graph)
        pool = next((node for node in reversed(whole.graph.node) if _averages(node, whole.graph)), None)
        if pool is None:
            raise UserError(
                f"{encoder.name} does not average feature maps, so it cannot show where its answer comes from"
            )
        self._names = [pool.input[0], pool.output[0]]
        front = onnx.ModelProto()
        front.CopyFrom(whole)
        del front.graph.output[:]
        front.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._names)
        self._front = _session(front)
        self._whole = whole
        self._tail: Any = None

    def maps(self, pixels: npt.NDArray[np.uint8]) -> tuple[Features, Features]:
        """Of one image, uint8, 3 x size x size: the maps, C x H x W, and their average as the rest of it takes it."""
        maps, average = self._front.run(self._names, {"pixels": pixels[None]})
        if maps.ndim != 4:
            raise UserError(
                "this encoder does not average over the image, so it cannot show where its answer comes from"
            )
        return maps[0], average[0]

    def features(self, averages: Features) -> Features:
        """Features, N x D, of averages, N x C (as many axes behind as the encoder's own average has)."""
        if self._tail is None:
            self._tail = _session(_tail(self._whole, self._names[1], averages.shape[1:]))
        found: Features = self._tail.run(["features"], {self._names[1]: averages})[0]
        return found


def _averages(node: onnx.NodeProto, graph: onnx.GraphProto) -> bool:
    """Whether a node averages over the last two of four axes."""
    if node.op_type == "GlobalAveragePool":
        return True
    if node.op_type != "ReduceMean":
        return False
    axes = [list(attribute.ints) for attribute in node.attribute if attribute.name == "axes"]
    axes += [numpy_helper.to_array(one).tolist() for one in graph.initializer if one.name in node.input[1:]]
    return bool(axes) and sorted(axes[0]) in ([2, 3], [-2, -1])


def _tail(whole: onnx.ModelProto, start: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """What is behind the tensor `start`, as a model from it to `features`."""
    needed, nodes = {"features"}, []
    for node in reversed(whole.graph.node):
        if needed & set(node.output) and start not in node.output:
            nodes.append(node)
            needed |= set(node.input)
    tail = onnx.ModelProto()
    tail.CopyFrom(whole)
    del tail.graph.node[:], tail.graph.input[:], tail.graph.initializer[:], tail.graph.value_info[:]
    tail.graph.node.extend(reversed(nodes))
    tail.graph.initializer.extend(one for one in whole.graph.initializer if one.name in needed)
    tail.graph.input.append(onnx_graph.value(start, "N", *shape))
    return tail


def _session(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
