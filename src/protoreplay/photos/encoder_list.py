"""The encoders of photos: how large, how fast here, how good, and what is installed."""

import importlib.util
import time
from typing import NamedTuple

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.encoders.efficientnet_weights import weights_path
from protoreplay.encoders.pretrained import DEFAULT_ENCODER, SIZES, FrozenEncoder, open_encoder

RECORDED = {"lite0": 0.7173, "lite2": 0.829}
"""Accuracy on CIFAR-10 from ten photos a class, over ten draws: results/photos/encoders.json."""
MEASURED_IMAGES, MEASURED_SECONDS = 16, 0.5
"""Batch size and duration in seconds of a speed measurement."""


class ListedEncoder(NamedTuple):
    """An encoder in the list.

    Attributes:
        name: to give to `--encoder`.
        side: of the square it looks at, in pixels; 0 where it is not known before it is opened.
        megabytes: of its graph; 0 where it is not installed.
        speed: images a second on one core, measured now; 0 where it is not installed.
        accuracy: as recorded; 0 where nothing is.
        state: that it is installed, or what would install it.
    """

    name: str
    side: int
    megabytes: float
    speed: float
    accuracy: float
    state: str


def list_encoders(measure: bool = True, more: tuple[str, ...] = ()) -> list[ListedEncoder]:
    """The built-in encoders, then those named in `more`; without `measure` no speed, and nothing is opened."""
    found = []
    for name in (*SIZES, *more):
        side, state = SIZES.get(name, 0), "installed" + (", the default" if name == DEFAULT_ENCODER else "")
        try:
            if name in SIZES:
                weights_path(name)
            encoder = open_encoder(name) if measure else None
        except UserError as error:
            found.append(ListedEncoder(name, side, 0.0, 0.0, RECORDED.get(name, 0.0), _remedy(name, error)))
            continue
        size, speed = (len(encoder.graph) / 1e6, embedding_speed(encoder)) if encoder else (0.0, 0.0)
        side = encoder.size if encoder else side
        found.append(ListedEncoder(name, side, size, speed, RECORDED.get(name, 0.0), state))
    return found


def embedding_speed(encoder: FrozenEncoder) -> float:
    """Images that one core embeds in a second: the best of a few batches, because others may use the machine, too."""
    count = max(1, min(MEASURED_IMAGES, 2**20 // encoder.size**2))
    pixels = np.random.default_rng(0).integers(0, 256, (count, 3, encoder.size, encoder.size), np.uint8)
    best, ends = float("inf"), time.perf_counter() + MEASURED_SECONDS
    while True:
        started = time.perf_counter()
        encoder.embed(pixels)
        now = time.perf_counter()
        best = min(best, now - started)
        if now >= ends:
            return count / best


def timm_state() -> str:
    """Whether `timm:NAME` can be used, or what would install it."""
    missing = [name for name in ("timm", "torch", "onnxscript") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} missing: pip install 'protoreplay[timm]'" if missing else "installed"


def _remedy(name: str, error: UserError) -> str:
    return "not installed: pip install 'protoreplay[lite1]'" if name == "lite1" else str(error)
