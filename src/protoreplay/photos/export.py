"""The whole classifier as one ONNX file: encoder, prototypes, calibration and "I don't know"."""

import json

import numpy as np
import onnx
from onnx import TensorProto

from protoreplay.encoders import onnx_graph
from protoreplay.encoders.pretrained import FrozenEncoder
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.taught import BACKGROUND


def to_onnx(model: PhotoModel, encoder: FrozenEncoder) -> bytes:
    """The file's bytes.

    Its input is `pixels` (uint8, N x 3 x size x size: the central square of each photo). Its outputs are `label`
    (int64, N: the class's number, or -1 for "I don't know"), `probabilities` (float32, N x K) and `familiarity`
    (float32, N: below 0 is "I don't know"). The class names are in the metadata, as JSON under `classes`.
    """
    body = onnx.load_model_from_string(encoder.graph)
    opset = onnx_graph.opset_of(body)
    whole = onnx.compose.merge_models(
        onnx.compose.add_prefix(body, "encoder/", rename_inputs=False, rename_outputs=False),
        _head(model, encoder.width, opset, body.ir_version),
        [("features", "features_in")],
    )
    about = {
        "classes": json.dumps(model.head.names, ensure_ascii=False),
        "size": str(encoder.size),
        "encoder": model.fingerprint,
        "unknown": str(model.unknown),
    }
    onnx.helper.set_model_props(whole, about)
    onnx.checker.check_model(whole)
    content: bytes = whole.SerializeToString()
    return content


def _head(model: PhotoModel, width: int, opset: int, ir_version: int) -> onnx.ModelProto:
    head, make = model.head, onnx_graph.GraphBuilder()
    shrink, classes = head.calibration.shrink, len(head.names)
    x = make.add("Mul", make.add("Sqrt", make.add("Abs", "features_in")), make.add("Sign", "features_in"))
    seen = make.add("Sub", make.add("LpNormalization", x, axis=1, p=2), make.constant(head.centre))
    cross = make.add("MatMul", seen, make.constant(head.matrix[:classes].T))
    scores = make.add("Sub", cross, make.constant(shrink / 2 * head.squares))
    make.add(
        "Softmax",
        make.add("Div", scores, make.constant(head.calibration.temperature)),
        output="probabilities",
        axis=1,
    )
    lengths = make.add("MatMul", make.add("Mul", seen, seen), make.constant(head.flat[:, None]))
    if bends := len(head.matrix) - classes:
        bent = make.add("MatMul", seen, make.constant(head.matrix[classes:].T))
        bent = make.add("MatMul", make.add("Mul", bent, bent), make.constant(np.full((bends, 1), head.sign)))
        lengths = make.add("Add", lengths, bent)
    one, axis = make.constant([1], np.int64), 1
    make.nodes.append(onnx.helper.make_node("TopK", [scores, one], ["best", "index"], axis=axis))
    near = make.add("Sub", make.add("Mul", cross, make.constant(2)), make.constant(head.squares))
    make.nodes.append(onnx.helper.make_node("TopK", [near, one], ["nearest", "nearest_index"], axis=axis))
    # A finite stand-in for minus infinity, which would make every familiarity infinite.
    threshold = max(head.threshold(model.unknown), -1e30)
    forgiven = make.add("Mul", lengths, make.constant(1 - BACKGROUND))
    level = make.add("Sub", make.add("Sub", "nearest", forgiven), make.constant(threshold))
    scaled = make.add("Div", level, make.constant(head.calibration.noise))
    flat = make.constant([-1], np.int64)
    familiarity = make.add("Reshape", scaled, flat, output="familiarity")
    strange = make.add("Less", familiarity, make.constant(0))
    make.add("Where", strange, make.constant(-1, np.int64), make.add("Reshape", "index", flat), output="label")
    outputs = [
        onnx_graph.value("label", "N", kind=TensorProto.INT64),
        onnx_graph.value("probabilities", "N", len(head.names)),
        onnx_graph.value("familiarity", "N"),
    ]
    result = make.model([onnx_graph.value("features_in", "N", width)], outputs, opset)
    result.ir_version = ir_version
    return result
