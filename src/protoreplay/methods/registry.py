"""The methods by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from protoreplay.core.errors import UserError
from protoreplay.core.registry import Registry
from protoreplay.core.settings import Settings
from protoreplay.methods import presets
from protoreplay.methods.acil import ACIL
from protoreplay.methods.augmentation import AugmentationSettings
from protoreplay.methods.base import Method, MethodContext
from protoreplay.methods.der import DER
from protoreplay.methods.er_ace import ERACE
from protoreplay.methods.ewc import EWC
from protoreplay.methods.fecam import FeCAM
from protoreplay.methods.icarl import ICaRL
from protoreplay.methods.joint import Joint
from protoreplay.methods.klda import KLDA
from protoreplay.methods.l2 import L2
from protoreplay.methods.logistic import Logistic
from protoreplay.methods.lwf import LwF
from protoreplay.methods.mas import MAS
from protoreplay.methods.nearest_mean import NearestMean
from protoreplay.methods.online_ewc import OnlineEWC
from protoreplay.methods.ranpac import RanPAC
from protoreplay.methods.replay import Replay
from protoreplay.methods.sgd import SGD
from protoreplay.methods.si import SI
from protoreplay.methods.simplecil import SimpleCIL
from protoreplay.methods.slda import SLDA
from protoreplay.methods.vpr import VPR
from protoreplay.methods.vpr_linear import VPRLinear
from protoreplay.methods.vpr_paper import VPRPaper
from protoreplay.streams.protocols import Protocol
from protoreplay.streams.stream import Stream


@dataclass(frozen=True)
class MethodEntry:
    """A name of the registry: a method with settings of its own.

    Attributes:
        method: the class.
        note: what distinguishes it from other entries of the class.
        preset: settings that differ from, or pin, the class's defaults.
    """

    method: type[Method[Any]]
    note: str = ""
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def search(self) -> Mapping[str, tuple[Any, ...]]:
        """The values that `protoreplay tune` tries, by setting."""
        return self.method.search

    @property
    def summary(self) -> str:
        """One line for lists of methods: the class's, and what this entry adds."""
        return f"{self.method.summary}{self.note}"

    def settings(self, protocol: Mapping[str, Any], overrides: Mapping[str, Any], name: str) -> Settings:
        """The class's defaults, then the entry's preset, then what the protocol prescribes, then `overrides`.

        Args:
            protocol: settings for all methods; those this one does not have are passed over.
            overrides: settings for this one; a wrong one is a `UserError`.
            name: for the error.
        """
        fields = self.method.Config.model_fields
        prescribed = {key: value for key, value in protocol.items() if key in fields}
        return self.method.Config.parse({**self.preset, **prescribed, **overrides}, name)

    def build(self, config: Settings, context: MethodContext) -> Method[Any]:
        """A method that has learned nothing yet."""
        return self.method(config, context)


def _entry(thing: Any, name: str) -> MethodEntry:
    if isinstance(thing, type) and issubclass(thing, Method):
        return MethodEntry(thing)
    if not isinstance(thing, MethodEntry):
        raise UserError(f"{name} is no method: give a class of protoreplay.methods.base.Method")
    return thing


METHODS: Registry[MethodEntry] = Registry(
    "method",
    {
        "vpr": MethodEntry(VPR),
        "vpr-paper": MethodEntry(VPRPaper, " as in the text of the paper"),
        "vpr-linear": MethodEntry(VPRLinear),
        "sgd": MethodEntry(SGD),
        "l2": MethodEntry(L2),
        "ewc": MethodEntry(EWC),
        "online-ewc": MethodEntry(OnlineEWC),
        "si": MethodEntry(SI),
        "mas": MethodEntry(MAS),
        "lwf": MethodEntry(LwF),
        "icarl": MethodEntry(ICaRL),
        "replay": MethodEntry(Replay),
        "der": MethodEntry(DER),
        "er-ace": MethodEntry(ERACE),
        "nearest-mean": MethodEntry(NearestMean, " of raw pixels"),
        "nearest-mean-random": MethodEntry(NearestMean, " of random convolutional features", {"features": "random"}),
        "nearest-mean-encoder": MethodEntry(
            NearestMean, " of the untrained encoder's features", {"features": "encoder"}
        ),
        "slda": MethodEntry(SLDA),
        "simplecil": MethodEntry(SimpleCIL),
        "fecam": MethodEntry(FeCAM),
        "ranpac": MethodEntry(RanPAC),
        "acil": MethodEntry(ACIL),
        "klda": MethodEntry(KLDA),
        "randumb": MethodEntry(KLDA, " (RanDumb: raw pixels)", {"features": "pixels", "expansion": 25_000}),
        "logistic": MethodEntry(Logistic),
        "joint": MethodEntry(Joint),
    },
    _entry,
)


def get_method(name: str, features: bool = False) -> MethodEntry:
    """The entry called `name`, whatever its preset, or a `UserError` that lists them.

    With `features`, the one that stands in for it where a frozen encoder gives it features; a `UserError` if it cannot
    be: for `FeatureSettings` that name features of their own.
    """
    entry = METHODS.get(presets.split_name(name)[0])
    if not features:
        return entry
    if "features" in entry.preset:
        others = {key: value for key, value in entry.preset.items() if key != "features"}
        if not others:  # nothing but its features distinguishes it
            raise UserError(f"{name} stands on features of its own: with --encoder, give nearest-mean")
        entry = replace(entry, preset=others)
    return entry if entry.method.on_features is None else MethodEntry(entry.method.on_features)


def configure(name: str, protocol: Protocol, overrides: Mapping[str, Any], features: bool = False) -> Settings:
    """The settings of `NAME` or `NAME@PRESET` on a protocol, with `overrides`; a wrong one is a `UserError`."""
    method, wanted = presets.split_name(name)
    preset = presets.preset_settings(method, wanted, protocol)
    entry = get_method(name, features)
    prescribed: Mapping[str, Any] = {**protocol.method_settings, **preset}
    if wanted.endswith(".json"):  # of the user's: a setting that the method does not have is a mistake
        prescribed, overrides = protocol.method_settings, {**preset, **overrides}
    if features:
        _refuse_image_settings(name, overrides)
    settings = entry.settings(prescribed, overrides, name)
    if getattr(settings, "features", None) == "dictionary" and not features:
        settings = entry.settings({**presets.dictionary_features(protocol), **prescribed}, overrides, name)
    augmented = [key for key in AugmentationSettings.model_fields if getattr(settings, key, 0)]
    if features and augmented:
        raise UserError(f"{name} has {augmented[0]}={getattr(settings, augmented[0])}: features cannot be augmented")
    if not features and getattr(settings, "head", "linear") != "linear":
        raise UserError(f"{name}: head={getattr(settings, 'head', '')} is for features: give them with --encoder")
    if not features and getattr(settings, "body", "") == "features":
        raise UserError(f"{name}: body=features is for features: give them with --encoder")
    return settings


def _refuse_image_settings(name: str, overrides: Mapping[str, Any]) -> None:
    """What says how images become features means nothing where an encoder has made them."""
    for key in ("encoder", "features", "filters"):
        if key in overrides:
            raise UserError(f"{name}: {key}={overrides[key]} is of features of its own: leave it out with --encoder")


def make_method(name: str, stream: Stream, seed: int = 0, device: str = "cpu", **settings: Any) -> Method[Any]:
    """A method that has learned nothing, for the images of `stream`.

    `settings` are those of `protoreplay methods show NAME`; what is not given is as the stream's protocol prescribes.
    """
    config = configure(name, stream.protocol, settings, stream.features)
    context = MethodContext(stream.image_shape, stream.num_classes, seed, device, stream.features)
    return get_method(name, stream.features).build(config, context)
