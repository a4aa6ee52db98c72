"""An encoder of the user's: an ONNX file, which is checked before anything of it runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import onnx
from onnx.external_data_helper import uses_external_data
from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from protoreplay.core.checked_json import checked_value, plain_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular
from protoreplay.encoders import onnx_graph
from protoreplay.encoders.pretrained import IMAGENET_MEAN, IMAGENET_STD, MOST_BYTES, Preprocessing

MOST_SIDE = 1024
"""Pixels: of a larger square, the activations alone would fill the memory."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _OwnPreprocessing(TypedDict):
    """What a file may say of its preprocessing."""

    size: Annotated[int, Field(ge=1, le=MOST_SIDE)]
    mean: tuple[_Number, _Number, _Number]
    std: tuple[_Positive, _Positive, _Positive]


def network_of_file(path: Path) -> tuple[Preprocessing, bytes, bytes]:
    """Preprocessing, the file's bytes, and the graph from pixels to features.

    Preprocessing is what the file's metadata say under `protoreplay`; ImageNet's usual numbers where they do not.
    """
    try:
        content = read_regular(path, MOST_BYTES)
        network = onnx.load_model_from_string(content)
        if any(uses_external_data(tensor) for tensor in _tensors_within(network)):
            # They would be read from wherever the file says, and the fingerprint would not be of them.
            raise UserError("some of its weights are in other files: save it as one file, without external data")
        onnx.checker.check_model(network)
        side = network.graph.input[0].type.tensor_type.shape.dim[2].dim_value or 224
        own = next((entry.value for entry in network.metadata_props if entry.key == "protoreplay"), "{}")
        said = {"size": side, "mean": IMAGENET_MEAN, "std": IMAGENET_STD, **plain_json(own)}
        about = checked_value(said, _OwnPreprocessing)
        steps = Preprocessing(about["size"], about["mean"], about["std"])
        return steps, content, onnx_graph.with_ends(network, *_normalisation(steps)).SerializeToString()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give the encoder's file with --encoder") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # protobuf, the checker and the composer each raise their own
        raise UserError(f"{path} is not an ONNX image encoder ({' '.join(str(error).split())[:200]})") from None


def _normalisation(steps: Preprocessing) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    return steps.size, steps.mean, steps.std


def _tensors_within(message: Any) -> Iterator[Any]:
    """All tensors of a protobuf message, those inside of branches and functions of a graph too."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if isinstance(part, onnx.TensorProto):
                yield part
            else:
                yield from _tensors_within(part)
