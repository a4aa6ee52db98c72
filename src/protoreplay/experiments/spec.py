"""What one run is: protocol, method, seed and settings, all resolved and checked before anything is written."""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from protoreplay import methods, protocols
from protoreplay._version import __version__
from protoreplay.errors import UserError
from protoreplay.methods import Method, Problem
from protoreplay.protocols import Evaluation, PermutedSettings, Protocol, SplitSettings, Stream
from protoreplay.settings import Settings, unknown


def first_seeds(count: int, evaluation: Evaluation) -> list[int]:
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
    """

    protocol: Protocol
    stream_settings: SplitSettings | PermutedSettings
    method: str
    method_settings: Settings
    seed: int
    evaluation: Evaluation
    variant: str

    def stream(self) -> Stream:
        """The run's stream of tasks."""
        return self.protocol.stream(self.seed, self.stream_settings, self.evaluation)

    def build(self, stream: Stream) -> Method[Any]:
        """The run's method, having learned nothing."""
        problem = Problem(stream.image_shape, stream.num_classes, self.seed)
        return methods.get(self.method).build(self.method_settings, problem)

    def config(self, stream: Stream) -> dict[str, Any]:
        """The content of `config.json`: everything needed to repeat the run."""
        return {
            "protocol": {"name": self.protocol.name, "settings": self.stream_settings.model_dump()},
            "method": {"name": self.method, "settings": self.method_settings.model_dump()},
            "seed": self.seed,
            "evaluation": self.evaluation,
            "known_classes": stream.known_classes(),
            "versions": {
                "protoreplay": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
            },
        }


def file_name(text: str) -> str:
    """A name for a file or folder that says `text`."""
    return re.sub(r"[^\w.,=+@-]+", "_", text)


def resolve(
    protocol: str, method: str, seed: int, overrides: Mapping[str, Any], evaluation: Evaluation = "test"
) -> RunSpec:
    """The run of one method; each override is a setting of the protocol or of the method."""
    return resolve_grid(protocol, [method], [seed], overrides, evaluation)[0]


def resolve_grid(
    protocol: str,
    method_names: list[str],
    seeds: list[int],
    overrides: Mapping[str, Any],
    evaluation: Evaluation = "test",
) -> list[RunSpec]:
    """The runs of several methods and seeds, seeds outermost.

    An override applies to the protocol, or else to each of the methods that has such a setting; one that nothing
    has is a `UserError`.
    """
    chosen = protocols.get(protocol)
    fields = {name: methods.get(name).method.Config.model_fields for name in method_names}
    stream_fields = type(chosen.defaults).model_fields
    known = set(stream_fields).union(*fields.values())
    for key in overrides:
        if key not in known:
            raise unknown("setting", key, sorted(known), f" of {protocol} with {', '.join(method_names)}")
    if any(seed < 0 for seed in seeds):
        raise UserError(f"seed {min(seeds)}: seeds are 0 or above")

    stream_settings = chosen.settings({key: value for key, value in overrides.items() if key in stream_fields})
    specs = []
    for name in fields:
        own = {key: value for key, value in overrides.items() if key in fields[name] and key not in stream_fields}
        settings = methods.configure(name, chosen, own)
        given = {key: overrides[key] for key in sorted(overrides) if key in own or key in stream_fields}
        given |= {"eval": evaluation} if evaluation != "test" else {}
        variant = file_name(",".join([name, *(f"{key}={value}" for key, value in given.items())]))
        specs += [RunSpec(chosen, stream_settings, name, settings, seed, evaluation, variant) for seed in seeds]
    return sorted(specs, key=lambda spec: seeds.index(spec.seed))
