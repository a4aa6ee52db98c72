"""A frozen encoder: pixels to features by onnxruntime, with a fingerprint of its weights and its preprocessing."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.core.places import cache_folder

DEFAULT_ENCODER = "lite2"
SIZES = {"lite0": 128, "lite1": 224, "lite2": 224}
"""Side in pixels where a name does not say it, as in `lite0@224`."""

IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)

Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Preprocessing:
    """What happens to a photo before the network: its central square at `size`, then `(pixel - mean) / std`.

    `readout` says which of the network's numbers are the features, `shrunk` how larger photos come to that size.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    readout: str = "output"
    shrunk: str = "area averages"


class FrozenEncoder:
    """A graph from `pixels` to `features`.

    Attributes:
        name: under which `open_encoder` finds it again.
        size: side of the square it looks at.
        width: number of features D.
        fingerprint: SHA-256 over weights and preprocessing; features of two fingerprints are never mixed.
        graph: the ONNX graph, as bytes.
    """

    def __init__(self, name: str, size: int, fingerprint: str, graph: bytes) -> None:
        import onnxruntime

        # Each call of `embed` runs on one thread, so that calls can run side by side.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.name, self.size, self.fingerprint, self.graph = name, size, fingerprint, graph
        try:
            self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
            self.width = self.embed(np.zeros((1, 3, size, size), np.uint8)).shape[1]
        except Exception as error:  # what onnxruntime raises are classes of its own, one for each kind of failure
            raise UserError(f"{name} does not run as an encoder: {' '.join(str(error).split())[:300]}") from None

    def embed(self, pixels: npt.NDArray[np.uint8]) -> Features:
        """Pixels, uint8, N x 3 x size x size, to features, N x width. May be called from many threads at once."""
        features: Features = self._session.run(["features"], {"pixels": pixels})[0]
        return features


@functools.lru_cache(maxsize=4)
def open_encoder(name: str = DEFAULT_ENCODER) -> FrozenEncoder:
    """The encoder of a name, opened once per process.

    Args:
        name: `lite0`, `lite1`, `lite2`, with another side as `lite2@288`; `timm:NAME` with the full name of a timm
            model and its weights; or the path of an ONNX file.
    """
    if name.startswith("timm:"):
        from protoreplay.encoders import timm_models

        return _kept(name, lambda: timm_models.timm_graph(name.removeprefix("timm:")))
    if name.endswith(".onnx"):
        return _from_file(Path(name))
    return _lite(name)


def _lite(name: str) -> FrozenEncoder:
    from protoreplay.encoders import efficientnet_weights

    base, _, side = name.partition("@")
    if base not in SIZES or (side and not (side.isdecimal() and 32 <= int(side) <= 1024 and int(side) % 32 == 0)):
        raise UserError(
            f"unknown encoder '{name}': {', '.join(SIZES)}, with a side that is a multiple of 32 as in lite0@224, "
            "timm:NAME, or a file that ends in .onnx"
        )
    size = int(side) if side else SIZES[base]
    content = efficientnet_weights.read_weights(base)
    steps = Preprocessing(
        size, (efficientnet_weights.MEAN,) * 3, (efficientnet_weights.STD,) * 3, efficientnet_weights.READOUT
    )
    fingerprint = encoder_fingerprint(steps, content)

    def convert() -> tuple[int, str, bytes]:
        from protoreplay.encoders.efficientnet import lite_graph

        return size, fingerprint, lite_graph(base, size).SerializeToString()

    return _kept(f"{base}@{size}", convert, fingerprint)


def _from_file(path: Path) -> FrozenEncoder:
    """Preprocessing is what the file's metadata say under `protoreplay`; ImageNet's usual numbers where they do not."""
    import onnx

    from protoreplay.encoders import onnx_graph

    try:
        content = path.read_bytes()
        network = onnx.load_model_from_string(content)
        onnx.checker.check_model(network)
        side = network.graph.input[0].type.tensor_type.shape.dim[2].dim_value or 224
        own = next((entry.value for entry in network.metadata_props if entry.key == "protoreplay"), "{}")
        about = {"size": side, "mean": IMAGENET_MEAN, "std": IMAGENET_STD, **json.loads(own)}
        steps = Preprocessing(int(about["size"]), tuple(map(float, about["mean"])), tuple(map(float, about["std"])))
        whole = onnx_graph.with_ends(network, steps.size, steps.mean, steps.std)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give the encoder's file with --encoder") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # protobuf, the checker and the composer each raise their own
        raise UserError(f"{path} is no ONNX encoder of images ({' '.join(str(error).split())[:200]})") from None
    return FrozenEncoder(
        str(path.absolute()), steps.size, encoder_fingerprint(steps, content), whole.SerializeToString()
    )


def encoder_fingerprint(steps: Preprocessing, *weights: bytes | memoryview) -> str:
    """SHA-256 over the preprocessing and the bytes of the weights."""
    digest = hashlib.sha256(json.dumps(dataclasses.astuple(steps)).encode())
    for part in weights:
        digest.update(part)
    return digest.hexdigest()


def _kept(name: str, convert: Callable[[], tuple[int, str, bytes]], fingerprint: str = "") -> FrozenEncoder:
    """What `convert` makes (size, fingerprint, graph), made once per machine, because it takes a second or many.

    A kept file whose bytes are not as they were written, or of other weights, is made again.
    """
    place = cache_folder() / "encoders" / f"{name.replace(':', '-').replace('/', '-')}.graph"
    try:
        head, _, graph = place.read_bytes().partition(b"\n")
        about = json.loads(head)
        if about["sha256"] == hashlib.sha256(graph).hexdigest() and fingerprint in ("", about["fingerprint"]):
            return FrozenEncoder(name, about["size"], about["fingerprint"], graph)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    size, fingerprint, graph = convert()
    about = {"size": size, "fingerprint": fingerprint, "sha256": hashlib.sha256(graph).hexdigest()}
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(about).encode() + b"\n" + graph)
    except OSError:  # a disk that is full or read-only costs time, not the answer
        pass
    return FrozenEncoder(name, size, fingerprint, graph)


def check_same_encoder(one: str, other: str, names: Sequence[str]) -> None:
    """A `UserError` unless two fingerprints are the same; `names` are what the encoders are called."""
    if one != other:
        raise UserError(
            f"features of two encoders cannot be mixed: {names[0]} ({one[:8]}) and {names[1]} ({other[:8]})"
        )
