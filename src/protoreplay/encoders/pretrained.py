"""A frozen encoder: pixels to features by onnxruntime, with a fingerprint of its weights and its preprocessing."""

import dataclasses
import functools
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from protoreplay.core.checked_json import checked_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular, write_whole
from protoreplay.core.places import cache_folder, make_cache_folder

DEFAULT_ENCODER = "lite2"
SIZES = {"lite0": 128, "lite1": 224, "lite2": 224}
"""Side in pixels where a name does not say it, as in `lite0@224`."""

IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)

MOST_BYTES = 2**31
"""Of an encoder's file: protobuf, in which ONNX is written, ends there."""
MOST_FEATURES = 2**16
"""Numbers that an encoder may make of a photo."""
FIRST_RUN_SECONDS = 120.0
"""So long may a graph take to be opened and to look at its first image; the largest encoders take a few."""

Features = npt.NDArray[np.float32]


class _KeptGraph(TypedDict):
    """What the head of a kept graph says of it."""

    name: str
    size: Annotated[int, Field(ge=1, le=4096)]
    fingerprint: str


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
        self.name, self.size, self.fingerprint, self.graph = name, size, fingerprint, graph
        opened: Future[tuple[Any, Features]] = Future()
        # In a thread that is left alone when it takes too long: nothing else stops a graph that loops.
        threading.Thread(target=_open_graph, args=(graph, size, opened), daemon=True).start()
        try:
            self._session, first = opened.result(FIRST_RUN_SECONDS)
            if first.ndim != 2 or first.dtype != np.float32 or not 0 < first.shape[1] <= MOST_FEATURES:
                raise ValueError(f"of one image it makes {first.dtype} {first.shape}, not float32 (1, D)")
        except TimeoutError:
            raise UserError(
                f"{name} does not run as an encoder: one image takes more than {FIRST_RUN_SECONDS:.0f} s"
            ) from None
        except Exception as error:  # what onnxruntime raises are classes of its own, one for each kind of failure
            raise UserError(f"{name} does not run as an encoder: {' '.join(str(error).split())[:300]}") from None
        self.width = first.shape[1]
        self._refuse_odd(first)

    def embed(self, pixels: npt.NDArray[np.uint8]) -> Features:
        """Pixels, uint8, N x 3 x size x size, to features, N x width. May be called from many threads at once.

        A `UserError` where they are not all finite numbers: one that is not would spoil a whole class.
        """
        features: Features = self._session.run(["features"], {"pixels": pixels})[0]
        self._refuse_odd(features)
        return features

    def _refuse_odd(self, features: Features) -> None:
        if not np.isfinite(features).all():
            raise UserError(f"{self.name} gives features that are not finite numbers: it cannot be used")


def _open_graph(graph: bytes, size: int, opened: "Future[tuple[Any, Features]]") -> None:
    """A session of onnxruntime, and what it makes of one black image."""
    import onnxruntime

    # Each call of `embed` runs on one thread, so that calls can run side by side.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        opened.set_result((session, session.run(["features"], {"pixels": np.zeros((1, 3, size, size), np.uint8)})[0]))
    except BaseException as error:
        opened.set_exception(error)


def is_built_in(name: str) -> bool:
    """Whether an encoder comes with the package, so that its name opens no file and runs no code of others."""
    return name.partition("@")[0] in SIZES


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
        from protoreplay.encoders.onnx_file import network_of_file

        path = Path(name)
        steps, weights, graph = network_of_file(path)
        return FrozenEncoder(str(path.absolute()), steps.size, encoder_fingerprint(steps, weights), graph)
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
        digest, _, content = read_regular(place, MOST_BYTES).partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() == digest:
            head, _, graph = content.partition(b"\n")
            about = checked_json(head, _KeptGraph)
            if about["name"] == name and fingerprint in ("", about["fingerprint"]):
                return FrozenEncoder(name, about["size"], about["fingerprint"], graph)
    except (OSError, ValueError, UserError):
        pass
    size, fingerprint, graph = convert()
    head = json.dumps({"name": name, "size": size, "fingerprint": fingerprint}).encode()
    content = head + b"\n" + graph
    try:
        make_cache_folder(place.parent)
        write_whole(place, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    except OSError:  # a disk that is full or read-only costs time, not the answer
        pass
    return FrozenEncoder(name, size, fingerprint, graph)


def check_same_encoder(one: str, other: str, names: Sequence[str]) -> None:
    """A `UserError` unless two fingerprints are the same; `names` are what the encoders are called."""
    if one != other:
        raise UserError(
            f"features of two encoders cannot be mixed: {names[0]} ({one[:8]}) and {names[1]} ({other[:8]})"
        )
