"""All encoders by name: networks that methods train, bodies made without training, frozen pretrained networks.

`NAME` is one of the table below, one of an installed package (entry points `protoreplay.encoders`), or registered in
this session; `FILE.py:NAME` is a module, or a function that makes one, in a file of the user's; `timm:NAME` and
`FILE.onnx` are frozen networks from elsewhere. Nothing heavy is imported before an encoder is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.core.registry import Registry, is_in_file

ImageShape = tuple[int, int, int]
"""Channels, height, width."""


@dataclass(frozen=True)
class EncoderEntry:
    """An encoder's name in the registry.

    Attributes:
        kind: `trained` by methods that train; `fitted` to the first task's images, without labels or gradients;
            `fixed`, made of nothing but the image shape and a seed; `pretrained`, made elsewhere and frozen.
        summary: one line.
        make: of `trained` ones, from the image shape to an `nn.Module`: pixels of 0..255, N x C x H x W, to N x D.
    """

    kind: Literal["trained", "fitted", "fixed", "pretrained"]
    summary: str
    make: Callable[..., Any] | str


def _entry(thing: Any, name: str) -> EncoderEntry:
    if isinstance(thing, EncoderEntry):
        return thing
    if not callable(thing):
        raise UserError(
            f"{name} is not an encoder: give a torch.nn.Module class, or a function from image shape to one"
        )
    return EncoderEntry("trained", " ".join((thing.__doc__ or name).split("\n\n")[0].split()), thing)


_TRUNKS = "protoreplay.encoders.trunks"
_FROZEN = "protoreplay.encoders.pretrained:open_encoder"
ENCODERS: Registry[EncoderEntry] = Registry(
    "encoder",
    {
        "conv-small": EncoderEntry("trained", "two 3 x 3 convolutions, for 8 x 8 digits", f"{_TRUNKS}:conv_small"),
        "mlp-small": EncoderEntry("trained", "two hidden layers of 128, for permuted digits", f"{_TRUNKS}:mlp_small"),
        "lenet": EncoderEntry("trained", "the paper's network for CIFAR-10", f"{_TRUNKS}:lenet"),
        "mlp-1000": EncoderEntry("trained", "the paper's network for permuted MNIST", f"{_TRUNKS}:mlp_1000"),
        "conv5": EncoderEntry("trained", "the paper's network for mini-ImageNet", f"{_TRUNKS}:conv5"),
        "lenet-bn": EncoderEntry("trained", "lenet with batch normalisation", f"{_TRUNKS}:lenet_bn"),
        "mlp-1000-bn": EncoderEntry("trained", "mlp-1000 with batch normalisation", f"{_TRUNKS}:mlp_1000_bn"),
        "conv5-bn": EncoderEntry("trained", "conv5 with batch normalisation", f"{_TRUNKS}:conv5_bn"),
        "dictionary": EncoderEntry(
            "fitted", "patch dictionary of the first task's images", "protoreplay.encoders.dictionary:PatchDictionary"
        ),
        "pixels": EncoderEntry("fixed", "raw pixels", "protoreplay.encoders.fixed:RawPixels"),
        "root-pixels": EncoderEntry(
            "fixed", "square roots of pixels, of unit length", "protoreplay.encoders.fixed:RootPixels"
        ),
        "random": EncoderEntry("fixed", "random 6 x 6 filters", "protoreplay.encoders.fixed:RandomFilters"),
        "lite0": EncoderEntry("pretrained", "EfficientNet-Lite0 at 128 pixels", _FROZEN),
        "lite1": EncoderEntry("pretrained", "EfficientNet-Lite1 at 224 pixels", _FROZEN),
        "lite2": EncoderEntry("pretrained", "EfficientNet-Lite2 at 224 pixels", _FROZEN),
    },
    _entry,
    ("timm:NAME", "FILE.onnx"),
)


def trunk(name: str) -> Callable[[ImageShape], Any]:
    """What makes the trunk called `name`, for methods that train it; a `UserError` for another kind of encoder."""
    trained = [known for known, entry in ENCODERS.items() if entry.kind == "trained"]
    if name not in trained and not is_in_file(name):
        raise unknown_name("encoder", name, trained, " to train", ["FILE.py:NAME"])
    return resolved(ENCODERS.get(name))


def resolved(entry: EncoderEntry) -> Callable[..., Any]:
    """What makes an encoder, imported now if it was not yet."""
    if not isinstance(entry.make, str):
        return entry.make
    import importlib

    module, _, attribute = entry.make.partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return made
