"""The ladder from the paper's form of VPR to its closed form: every rung is the one below it with one thing changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from protoreplay.analysis.results import Group
from protoreplay.experiments.spec import RunSpec, resolve_grid
from protoreplay.methods import registry
from protoreplay.streams import protocols


@dataclass(frozen=True)
class Rung:
    """One form of VPR.

    Attributes:
        name: what is new in it, for people.
        method: a name of the registry.
        settings: all those in which a rung of this method differs from another.
    """

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def command(self, protocol: str) -> str:
        """What runs this rung alone."""
        chosen = "".join(f" --set {key}={_as_typed(value)}" for key, value in self.settings.items())
        return f"protoreplay bench {protocol} --methods {self.method}{chosen}"

    def matches(self, group: Group) -> bool:
        """Whether the runs of a group have this rung's method and settings, whatever their other settings."""
        config, fields = group.results[0].config.method, registry.get_method(self.method).method.Config.model_fields
        # Some settings are written down only where they are not the default.
        found = {key: config.settings.get(key, fields[key].default) for key in self.settings}
        return config.name == self.method and found == dict(self.settings)


def _as_typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_UNTRAINED = {"steps": 0, "replay": "means"}
# Chosen by the same search on validation streams as the defaults, which suit everything else that is replayed: the more
# the head is trained on means, the worse it gets.
_SHORT = {"steps": 30, "lr": 3e-5}
_SAMPLES = {"body": "dictionary", "replay": "samples"}

LADDER: tuple[Rung, ...] = (
    Rung("the paper's form", "vpr-paper", {"trunk": "trained"}),
    Rung("body frozen after the first task", "vpr-paper", {"trunk": "frozen"}),
    Rung("head frozen too, prototypes kept", "vpr-linear", {"body": "trunk", "views": 1, **_UNTRAINED}),
    Rung("a patch dictionary as the body", "vpr-linear", {"body": "dictionary", "views": 1, **_UNTRAINED}),
    Rung("prototypes of augmented views", "vpr-linear", {"body": "dictionary", **_UNTRAINED}),
    Rung("head trained, stored images replayed", "vpr-linear", {"body": "dictionary", "replay": "images"}),
    Rung("prototype means replayed instead", "vpr-linear", {"body": "dictionary", "replay": "means", **_SHORT}),
    Rung("samples of mean and variance instead", "vpr-linear", {**_SAMPLES, "covariance": "class"}),
    Rung("one covariance shared by all classes", "vpr-linear", {**_SAMPLES, "covariance": "shared"}),
    Rung("its closed form, without a step", "vpr"),
)


def rung_of(group: Group) -> Rung | None:
    """The rung that a group of runs belongs to: of those whose settings it has, the one that sets most of them."""
    return max((rung for rung in LADDER if rung.matches(group)), key=lambda rung: len(rung.settings), default=None)


@dataclass(frozen=True)
class PlannedRung:
    """A rung on a protocol and its runs, one a seed."""

    rung: Rung
    specs: list[RunSpec]


def plan_ladder(
    protocol: str, seeds: Sequence[int], overrides: Mapping[str, Any], evaluation: Any = "test", device: str = "cpu"
) -> list[PlannedRung]:
    """The runs of all rungs, from the lowest, without those that on this protocol change nothing.

    `overrides` apply to the rungs that have such a setting and do not set it themselves. One that no rung has, or with
    a wrong value, is a `UserError`.
    """
    names = list(dict.fromkeys(rung.method for rung in LADDER))
    resolve_grid(
        protocol, names, list(seeds), overrides, evaluation, device=device
    )  # the errors of what applies to all
    stream_fields = type(protocols.get_protocol(protocol).defaults).model_fields
    planned: list[PlannedRung] = []
    for rung in LADDER:
        fields = {*registry.get_method(rung.method).method.Config.model_fields, *stream_fields}
        own = {key: value for key, value in overrides.items() if key in fields}
        specs = resolve_grid(protocol, [rung.method], list(seeds), {**own, **rung.settings}, evaluation, device=device)
        if not planned or specs[0].method_settings != planned[-1].specs[0].method_settings:
            planned.append(PlannedRung(rung, specs))
    return planned
