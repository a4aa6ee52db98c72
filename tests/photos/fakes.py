"""A tiny encoder, and photos that it can tell apart."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from protoreplay.encoders import onnx_graph

COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (30, 60, 210), "yellow": (220, 200, 30)}
SIZE, WIDTH = 32, 24


def tiny_encoder(
    path: Path, seed: int = 0, opset: int = onnx_graph.OPSET, maps: bool = False, about: dict | None = None
) -> Path:
    """An ONNX file: random filters on normalised images, rectified, averaged (or not: `maps`)."""
    random = np.random.default_rng(seed)
    make = onnx_graph.GraphBuilder()
    weights = make.constant(random.normal(size=(WIDTH, 3, 4, 4)))
    x = make.add("Relu", make.add("Conv", "image", weights, strides=[4, 4]), output="maps" if maps else "")
    shape: tuple[int | str, ...] = ("N", WIDTH, SIZE // 4, SIZE // 4)
    if not maps:
        make.add("Flatten", make.add("GlobalAveragePool", x), output="pooled", axis=1)
        shape = ("N", WIDTH)
    output = onnx_graph.value("maps" if maps else "pooled", *shape)
    model = make.model([onnx_graph.value("image", "N", 3, SIZE, SIZE)], [output], opset)
    if about is not None:
        model.metadata_props.add(key="protoreplay", value=json.dumps(about))
    path.write_bytes(model.SerializeToString())
    return path


def photo(colour: str, seed: int, noise: int = 60) -> Image.Image:
    random = np.random.default_rng(seed)
    pixels = np.array(COLOURS[colour]) + random.integers(-noise, noise + 1, (40, 40, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def photos(folder: Path, count: int = 6, start: int = 0, colours: tuple[str, ...] = ("red", "green", "blue")) -> Path:
    """A sub-folder of photos per colour."""
    for colour in colours:
        (folder / colour).mkdir(parents=True, exist_ok=True)
        for i in range(start, start + count):
            photo(colour, 100 * sorted(COLOURS).index(colour) + i).save(folder / colour / f"{i:03}.png")
    return folder


def pixels(folder: Path) -> dict[str, list[Path]]:
    return {place.name: sorted(place.iterdir()) for place in sorted(folder.iterdir())}
