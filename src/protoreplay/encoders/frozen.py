"""Any encoder, frozen: an image gives the same features in every task, whatever images stand beside it.

A network that was made elsewhere, one of the package's or of the user's with the weights it starts with, pixels, random
filters, or a patch dictionary that is fitted once. Each image goes through on its own: what a network makes of it then
does not depend, not even in the last bit, on which others are computed at the same time.
"""

import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.core.errors import UserError
from protoreplay.core.registry import is_in_file, source_text
from protoreplay.core.rng import borrowed, generator
from protoreplay.encoders.dictionary import DictionarySettings, PatchDictionary
from protoreplay.encoders.fixed import RandomFilters, RawPixels, RootPixels
from protoreplay.encoders.network import check_trunk
from protoreplay.encoders.pretrained import FrozenEncoder, open_encoder
from protoreplay.encoders.registry import ENCODERS, EncoderEntry, ImageShape, resolved

RANDOM_FILTERS = 800
"""Filters of `random`, as many as the methods on random features have."""


class ImageEncoder(ABC):
    """Images to features, one image at a time.

    Attributes:
        name: as it was asked for.
        fingerprint: SHA-256 over all that the features depend on but the image: of what is fitted, before it is.
        kept: whether its features are worth keeping on the disk.
        network: whether it is a network that was trained elsewhere; such features are taken as square roots.
        fitted: whether it must be fitted to the first task's images before anything else.
    """

    name: str
    fingerprint: str
    kept = True
    network = False
    fitted = False

    @abstractmethod
    def embed(self, image: Tensor) -> Tensor:
        """Of one image, uint8 1 x C x H x W, the features, float32 1 x D."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of features D."""


class PretrainedEncoder(ImageEncoder):
    """A network made elsewhere; images are brought to its size, and grey ones to three channels."""

    network = True

    def __init__(self, name: str, frozen: FrozenEncoder) -> None:
        self.name, self._frozen = name, frozen
        self.fingerprint = _sha256_of("pretrained, bilinear, square roots of unit length", frozen.fingerprint)

    @property
    def width(self) -> int:
        """As the network says."""
        return int(self._frozen.width)

    def embed(self, image: Tensor) -> Tensor:
        """Resized if need be."""
        side = (self._frozen.size, self._frozen.size)
        if image.shape[1] == 1:
            image = image.expand(-1, 3, -1, -1)
        if tuple(image.shape[-2:]) != side:
            larger = functional.interpolate(image.float(), size=side, mode="bilinear", antialias=True)
            image = larger.round_().clamp_(0, 255).to(torch.uint8)
        return torch.from_numpy(self._frozen.embed(np.ascontiguousarray(image.numpy())))


class ModuleEncoder(ImageEncoder):
    """A module in evaluation mode, as it is made: its weights come from a generator that is always the same."""

    def __init__(self, name: str, module: nn.Module, shape: ImageShape, code: str, kept: bool = True) -> None:
        self.name, self.kept = name, kept
        self._module = module.eval().requires_grad_(False)
        self._width = check_trunk(self._module, name, shape)
        weights = {key: tensor.contiguous() for key, tensor in self._module.state_dict().items()}
        parts = [part for key, tensor in sorted(weights.items()) for part in (key, _bytes(tensor))]
        self.fingerprint = _sha256_of("module", json.dumps(shape), code, *parts)

    @property
    def width(self) -> int:
        """As the module showed."""
        return self._width

    @torch.no_grad()
    def embed(self, image: Tensor) -> Tensor:
        """As the module is."""
        features: Tensor = self._module(image)
        return features.float()


class DictionaryEncoder(ImageEncoder):
    """The dictionary of `vpr`: `fit_to` says of which images and by which random numbers; fitted when it is needed."""

    fitted = True

    def __init__(self, name: str, shape: ImageShape, settings: DictionarySettings) -> None:
        self.name, self._shape, self._settings = name, shape, settings
        about = json.dumps([shape, settings.model_dump(mode="json")])
        self.fingerprint = _sha256_of("dictionary", about, _code(PatchDictionary))
        self._fitting: tuple[Tensor, torch.Generator] | None = None
        self._body: PatchDictionary | None = None

    @property
    def width(self) -> int:
        """The latent dimension."""
        return self._settings.latent

    def fit_to(self, images: Tensor, random: torch.Generator) -> "DictionaryEncoder":
        """The dictionary of these images, N x C x H x W; its fingerprint is of the images and the draws too."""
        made = DictionaryEncoder(self.name, self._shape, self._settings)
        made.fingerprint = _sha256_of(self.fingerprint, _bytes(images), _bytes(random.get_state()))
        made._fitting = images, random
        return made

    @torch.no_grad()
    def embed(self, image: Tensor) -> Tensor:
        """Fits the dictionary first, if that was not done."""
        if self._body is None:
            assert self._fitting is not None, "it is fitted before it is asked"
            self._body = PatchDictionary(self._shape, self._settings)
            self._body.fit(*self._fitting)
        return self._body(image)  # type: ignore[no-any-return]


def frozen_encoder(name: str, shape: ImageShape, dictionary: DictionarySettings | None = None) -> ImageEncoder:
    """The encoder called `name` for images of a shape; a `UserError` for what is none.

    Args:
        name: one of the registry, `timm:NAME`, `FILE.onnx`, or `FILE.py:NAME`.
        shape: channels, height, width of the images.
        dictionary: settings of `dictionary`, if not its own.
    """
    entry = _registered(name)
    if entry is None or entry.kind == "pretrained":
        return PretrainedEncoder(name, open_encoder(name))
    random = generator(0, "frozen encoder")
    if entry.kind == "fitted":
        if resolved(entry) is not PatchDictionary:
            raise UserError(f"encoder {name} is fitted to images; of those, only the dictionary can be frozen")
        return DictionaryEncoder(name, shape, dictionary or DictionarySettings())
    make = resolved(entry)
    if make is RawPixels:
        return ModuleEncoder(name, RawPixels(), shape, _code(RawPixels), kept=False)
    if make is RootPixels:
        return ModuleEncoder(name, RootPixels(shape), shape, _code(RootPixels), kept=False)
    if make is RandomFilters:
        return ModuleEncoder(name, RandomFilters(shape, RANDOM_FILTERS, random), shape, _code(RandomFilters))
    with borrowed(random):
        module = make(shape)
    check_trunk(module, name, shape)
    return ModuleEncoder(name, module, shape, source_text(name.rpartition(":")[0]) if is_in_file(name) else _code(make))


def native_size(name: str) -> int | None:
    """The side that a network made elsewhere looks at; None for encoders that take images as they come."""
    entry = _registered(name)
    return open_encoder(name).size if entry is None or entry.kind == "pretrained" else None


def _registered(name: str) -> EncoderEntry | None:
    """None for networks that no registry lists: `timm:NAME`, `FILE.onnx`, `lite0@224`."""
    outside = name.startswith("timm:") or name.endswith(".onnx") or (name.startswith("lite") and "@" in name)
    return None if outside else ENCODERS.get(name)


def _bytes(tensor: Tensor) -> memoryview:
    flat: Any = tensor.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy()
    return memoryview(flat).cast("B")


def _code(made_by: Any) -> str:
    """What can be known of the code of a class or a function."""
    try:
        return inspect.getsource(inspect.getmodule(made_by) or made_by)
    except (OSError, TypeError):  # typed into a session: its name, and what its functions were compiled to
        functions = [made_by, *vars(made_by).values()] if isinstance(made_by, type) else [made_by]
        compiled = [function.__code__ for function in functions if hasattr(function, "__code__")]
        plain = (bool, int, float, str, bytes, tuple, type(None))
        told = [(code.co_code, code.co_names, [c for c in code.co_consts if type(c) in plain]) for code in compiled]
        return f"{made_by.__qualname__} {told}"


def _sha256_of(*parts: str | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()
