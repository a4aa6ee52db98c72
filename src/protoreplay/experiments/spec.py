"""What one run is: protocol, method, seed and settings, all resolved and checked before anything is written."""

import functools
import hashlib
import itertools
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from protoreplay._version import __version__
from protoreplay.core.devices import check_device, pick_device
from protoreplay.core.errors import UserError, unknown_name
from protoreplay.core.registry import short_names
from protoreplay.core.settings import Settings
from protoreplay.core.source_digest import checked_out_commit
from protoreplay.encoders.dictionary import DictionarySettings
from protoreplay.encoders.frozen import native_size
from protoreplay.experiments.run_code import code_of_run
from protoreplay.experiments.run_config import CodePart, EncoderIdentity, NamedSettings, RunConfig, RunIdentity
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.methods import presets, registry
from protoreplay.methods.base import Method, MethodContext
from protoreplay.streams import protocols
from protoreplay.streams.embedded import embedded, fingerprint_of
from protoreplay.streams.protocols import EvaluationImages, PermutedSettings, Protocol, SplitSettings
from protoreplay.streams.stream import Stream

OtherSource = Literal["refuse", "redo", "keep"]
"""What to do with a finished run whose source code has changed: raise an error, repeat it, or keep it."""


def first_seeds(count: int, evaluation: EvaluationImages) -> list[int]:
    """The seeds of a grid: from 0, or from 1000 on validation images, so that nothing is chosen on a draw we report."""
    first = 1000 if evaluation == "validation" else 0
    return list(range(first, first + count))


@dataclass(frozen=True)
class RunSpec:
    """A run, ready to execute.

    Attributes:
        protocol: the protocol.
        stream_settings: its settings.
        method: a name of the registry, with its preset (`ewc@tuned`) unless that is the published one.
        method_settings: its settings.
        seed: of the draw and of the method.
        evaluation: on test images, or on validation images cut from the training set.
        variant: the method's name with the settings that were given; names the run's folder.
        device: where to compute, one of `protoreplay.core.devices.DEVICES`; does not make it another run.
        keep: whether it keeps its prototypes for analyses; nor does that.
        encoder: turns images into features on the way in; empty where the method meets images.
        fingerprint: of the encoder.
        code: the source that it is made of; nor does that.
        other_source: what to do if the run is finished and its source code has changed since.
    """

    protocol: Protocol
    stream_settings: SplitSettings | PermutedSettings
    method: str
    method_settings: Settings
    seed: int
    evaluation: EvaluationImages
    variant: str
    device: str = "cpu"
    keep: bool = False
    encoder: str = ""
    fingerprint: str = ""
    code: Mapping[str, CodePart] = field(default_factory=dict)
    other_source: OtherSource = "refuse"

    @property
    def name(self) -> str:
        """As progress and errors call it: the variant and the seed."""
        return f"{self.variant} seed {self.seed}"

    def stream(self) -> Stream:
        """The run's stream of tasks."""
        stream = self.protocol.stream(self.seed, self.stream_settings, self.evaluation)
        if not self.encoder:
            return stream
        return embedded(stream, self.encoder, self.seed, dictionary_of(self.protocol), self.fingerprint)

    def build(self, stream: Stream) -> Method[Any]:
        """The run's method, having learned nothing."""
        device, features = pick_device(self.device), bool(self.encoder)
        context = MethodContext(stream.image_shape, stream.num_classes, self.seed, device, features)
        return registry.get_method(self.method, features).build(self.method_settings, context)

    def identity(self, known_classes: Sequence[int]) -> RunIdentity:
        """What makes it this run and no other; `known_classes` of its stream, or of one of another seed."""
        return RunIdentity(
            protocol=NamedSettings(name=self.protocol.name, settings=self.stream_settings.model_dump(mode="json")),
            method=NamedSettings(name=self.method, settings=self.method_settings.model_dump(mode="json")),
            seed=self.seed,
            evaluation=self.evaluation,
            known_classes=tuple(known_classes),
            encoder=self._encoder_identity(),
        )

    def _encoder_identity(self) -> EncoderIdentity | None:
        name = Path(self.encoder).name if self.encoder.endswith(".onnx") else self.encoder
        return EncoderIdentity(name=name, fingerprint=self.fingerprint) if name else None

    def config(self, stream: Stream) -> RunConfig:
        """The content of `config.json`: everything needed to repeat the run, and what it is computed with."""
        instructions = torch.backends.cpu.get_cpu_capability()
        computed_with = installed_versions() | {"device": pick_device(self.device), "processor": instructions}
        if note := self.protocol.shortfall(self.stream_settings):
            computed_with["data"] = note
        return RunConfig(
            **dict(self.identity(stream.known_classes())),
            versions=computed_with,
            commit=checked_out_commit(),
            code=dict(self.code),
        )

    def defaults(self) -> dict[str, Any]:
        """By path as in `RunIdentity.first_difference`, what a run of before there was a setting had."""
        named = {"protocol": self.protocol.defaults, "method": registry.get_method(self.method).method.Config()}
        return {
            f"{owner}.settings.{key}": value
            for owner, settings in named.items()
            for key, value in settings.model_dump(mode="json").items()
        }

    def other_code(self, folder: RunFolder) -> list[str]:
        """The parts of the finished run in a folder whose source code differs from this one's."""
        finished = folder.finished_run()
        return finished.config.other_code(self.code) if finished else []

    def done_in(self, folder: RunFolder) -> bool:
        """Whether nothing is left to do there."""
        return folder.finished() and not (self.other_source == "redo" and self.other_code(folder))

    def to_plain(self) -> dict[str, Any]:
        """As values that any process can read before it knows the classes of this run's settings."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "code": {name: part.model_dump() for name, part in self.code.items()},
            "protocol": self.protocol.name,
            "stream_settings": _plain_settings(self.stream_settings),
            "method_settings": _plain_settings(self.method_settings),
        }

    @classmethod
    def from_plain(
        cls, plain: Mapping[str, Any], find_protocol: Callable[[str], Protocol] = protocols.get_protocol
    ) -> "RunSpec":
        """The run that `to_plain` told of; foreign code that it needs must have been installed."""
        protocol, method = find_protocol(plain["protocol"]), plain["method"]
        settings = registry.get_method(method, bool(plain["encoder"])).method.Config
        return cls(
            **{
                **plain,
                "protocol": protocol,
                "code": {name: CodePart(**part) for name, part in plain["code"].items()},
                "stream_settings": protocol.settings(plain["stream_settings"]),
                "method_settings": settings.parse(plain["method_settings"], method),
            }
        )


_PLAIN = ("method", "seed", "evaluation", "variant", "device", "keep", "encoder", "fingerprint", "other_source")


def dictionary_of(protocol: Protocol) -> DictionarySettings:
    """The dictionary that `vpr` makes on a protocol's images: `--encoder dictionary` is the same."""
    chosen = presets.preset_settings("vpr", "published", protocol)
    fields = DictionarySettings.model_fields
    return DictionarySettings(**{key: value for key, value in chosen.items() if key in fields})


def _plain_settings(settings: Settings) -> dict[str, Any]:
    """All of them, also such as are not written down where they have their default."""
    return dict(settings) | settings.model_dump(mode="json")


@functools.cache
def installed_versions() -> dict[str, str]:
    """Of all that a result may depend on."""
    return {
        "protoreplay": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
    }


def file_name(text: str) -> str:
    """A name for a file or folder that says `text`."""
    return re.sub(r"[^\w.,=+@-]+", "_", text)


def resolve(
    protocol: str,
    method: str,
    seed: int,
    overrides: Mapping[str, Any],
    evaluation: EvaluationImages = "test",
    device: str = "cpu",
    keep: bool = False,
    encoder: str = "",
) -> RunSpec:
    """The run of one method; each override is a setting of the protocol or of the method."""
    return resolve_grid(protocol, [method], [seed], overrides, evaluation, None, device, keep, encoder)[0]


def resolve_grid(
    protocol: str,
    method_names: list[str],
    seeds: list[int],
    overrides: Mapping[str, Any],
    evaluation: EvaluationImages = "test",
    vary: Mapping[str, Sequence[Any]] | None = None,
    device: str = "cpu",
    keep: bool = False,
    encoder: str = "",
    other_source: OtherSource = "refuse",
) -> list[RunSpec]:
    """The runs of several methods and seeds, seeds outermost; with `vary`, for every combination of its values.

    A setting applies to the protocol, or else to each of the methods that has it; one that nothing has is a
    `UserError`. A method that has none of the varied settings is run once. With `keep`, methods with prototypes keep
    them; that no method has any is a `UserError`. With `encoder`, all methods meet its features in place of images,
    which are brought to its size unless `image_size` is set.
    """
    vary = vary or {}
    if any(seed < 0 for seed in seeds):
        raise UserError(f"seed {min(seeds)}: seeds are 0 or above")
    if twice := sorted(overrides.keys() & vary.keys()):
        raise UserError(f"{twice[0]} is both set and varied: give one of them")
    check_device(device)
    keeping = [name for name in method_names if registry.get_method(name, bool(encoder)).method.has_latent()]
    if keep and not keeping:
        having = [name for name, recipe in registry.METHODS.items() if recipe.method.has_latent()]
        raise UserError(f"{', '.join(method_names)}: no prototypes to keep; {' and '.join(having)} have some")
    chosen = protocols.get_protocol(protocol)
    if encoder.endswith(".onnx"):
        encoder = str(Path(encoder).absolute())  # other processes may be elsewhere
    variants: dict[str, RunSpec] = {}
    for values in itertools.product(*vary.values()):
        settings = {**overrides, **dict(zip(vary, values, strict=True))}
        for spec in _variants(chosen, method_names, settings, evaluation, encoder):
            kept = keep and spec.method in keeping
            variants.setdefault(spec.variant, replace(spec, device=device, keep=kept, other_source=other_source))
    return [replace(spec, seed=seed) for seed in dict.fromkeys(seeds) for spec in variants.values()]


def _short_text(value: Any) -> str:
    """A value in the name of a folder, which has at most 255 letters: the end of a path, the beginning of a list."""
    text = str(value)
    if len(text) <= 60:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[:20]}-{digest}" if "," in text else f"{digest}-{text[-30:]}"


def _variants(
    protocol: Protocol,
    method_names: list[str],
    overrides: Mapping[str, Any],
    evaluation: EvaluationImages,
    encoder: str,
) -> list[RunSpec]:
    """One run of each method, of seed 0."""
    features = bool(encoder)
    fields = {name: registry.get_method(name, features).method.Config.model_fields for name in method_names}
    stream_fields = type(protocol.defaults).model_fields
    known = set(stream_fields).union(*fields.values())
    for key in overrides:
        if key not in known:
            raise unknown_name("setting", key, sorted(known), f" of {protocol.name} with {', '.join(method_names)}")

    side = native_size(encoder) if encoder and isinstance(protocol.defaults, SplitSettings) else None
    of_stream = {"image_size": side} if side else {}
    of_stream |= {key: value for key, value in overrides.items() if key in stream_fields}
    stream_settings = protocol.settings(of_stream)
    fingerprint = _fingerprint(protocol, stream_settings, encoder) if encoder else ""
    short = short_names(fields, taken=registry.METHODS)
    specs = []
    for name in fields:
        own = {key: value for key, value in overrides.items() if key in fields[name] and key not in stream_fields}
        settings = registry.configure(name, protocol, own, features)
        given = {key: overrides[key] for key in sorted(overrides) if key in own or key in stream_fields}
        given |= {"eval": evaluation} if evaluation != "test" else {}
        given |= {"on": Path(short_names([encoder])[encoder]).name} if encoder else {}
        variant = file_name(",".join([short[name], *(f"{key}={_short_text(value)}" for key, value in given.items())]))
        code = code_of_run(protocol, name, settings, features)
        spec = RunSpec(protocol, stream_settings, name, settings, 0, evaluation, variant, code=code)
        specs.append(replace(spec, encoder=encoder, fingerprint=fingerprint))
    return specs


def _fingerprint(protocol: Protocol, settings: SplitSettings | PermutedSettings, encoder: str) -> str:
    """Of an encoder for the images of a protocol."""
    side = settings.image_size
    channels = protocol.dataset.load(side).train.images.shape[1]
    return fingerprint_of(encoder, (channels, side, side), dictionary_of(protocol))
