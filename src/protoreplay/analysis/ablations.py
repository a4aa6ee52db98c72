"""VPR without each of its ingredients: the paper's ablations and our own, as data, and the grid of their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from protoreplay.analysis.claims import VARIANCELESS
from protoreplay.core.errors import unknown_name
from protoreplay.experiments.spec import RunSpec, resolve_grid
from protoreplay.methods import registry
from protoreplay.streams import protocols
from protoreplay.streams.protocols import Protocol

ABLATED_METHODS = ("vpr", "vpr-paper")


@dataclass(frozen=True)
class Ablation:
    """One method with one thing changed.

    Attributes:
        name: what is different, for people; empty for the full method.
        method: a name of the registry.
        settings: what is changed.
        kind: of the protocols on which it makes sense.
        alias: the paper's name of it, empty where it has none.
    """

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["any", "incremental class", "incremental domain"] = "any"
    alias: str = ""

    @property
    def title(self) -> str:
        """The name, and the paper's."""
        return f"{self.name} ({self.alias})" if self.alias else self.name


NO_VIEWS = {"views": 1, "augment_shift": 0, "augment_colour": 0.0, "augment_hue": 0.0, "augment_erase": 0.0}

ABLATIONS: tuple[Ablation, ...] = (
    Ablation("", "vpr"),
    # Views and mirrored features are for images, where tasks bring new classes; domains, where classes come back.
    Ablation("weighted by variances only", "vpr", {"weighting": "variances"}),
    Ablation("not weighted", "vpr", {"weighting": "none"}),
    Ablation("no augmented views", "vpr", NO_VIEWS, "incremental class"),
    Ablation("features not mirrored", "vpr", {"mirror": False}, "incremental class"),
    Ablation("images and views weighed alike", "vpr", {"few": 0.0}, "incremental class"),
    Ablation("prototypes not shrunk", "vpr", {"shrink": 1.0}, "incremental class"),
    Ablation("own prototypes in each domain", "vpr", {"domains": "own"}, "incremental domain"),
    Ablation("one prototype a class", "vpr", {"prototypes": 1}, "incremental domain"),
    Ablation("", "vpr-paper"),
    Ablation("unweighted distance", "vpr-paper", {"weighted": False}, alias="NoWeightEucli"),
    Ablation("replay backward", "vpr-paper", {"replay_order": "backward"}, alias="replaySeqBack"),
    Ablation("latest task only", "vpr-paper", {"replay_order": "latest-only"}, alias="replaySeqCurr"),
    Ablation("recall of the mean", "vpr-paper", {"recall": "mean"}, alias="recalMean"),
    Ablation("recall of the variance", "vpr-paper", {"recall": "variance"}, alias="recalVar"),
    *(Ablation(f"Z = {z}", "vpr-paper", {"samples": z}, alias=f"numProto{z}") for z in (100, 20, 2)),
    *(Ablation(f"dimension {dim}", "vpr-paper", {"dim": dim}, alias=f"repSz{dim}") for dim in (1000, 100, 10)),
    Ablation("prototypes without variance", "vpr-paper", VARIANCELESS),
    Ablation("fused replay", "vpr-paper", {"fused": True}),
    Ablation("closed form", "vpr-paper", {"expectation": "closed-form"}),
    Ablation("kept prototypes", "vpr-paper", {"old_prototypes": "kept"}),
)


@dataclass(frozen=True)
class PlannedAblation:
    """An ablation on a protocol and its runs, one a seed."""

    ablation: Ablation
    specs: list[RunSpec]


def plan_ablations(
    protocol: str,
    names: Sequence[str],
    seeds: list[int],
    overrides: Mapping[str, Any],
    device: str = "cpu",
    only: Sequence[str] = (),
) -> list[PlannedAblation]:
    """The runs of all ablations of the methods `names`, or of those called `only`; each method's full form first.

    Ablations go by their name or by the paper's, in capitals or not; an unknown one is a `UserError`. Left out are
    ablations for other kinds of protocols, and those that on this protocol change nothing. `overrides` apply to all of
    them, except where an ablation changes the same setting; a wrong one is a `UserError`.
    """
    chosen = protocols.get_protocol(protocol)
    resolve_grid(protocol, list(names), seeds, overrides, device=device)  # the errors of what applies to all
    planned: list[PlannedAblation] = []
    for ablation in _called(only, names):
        if ablation.method not in names or ablation.kind not in ("any", chosen.kind):
            continue
        settings = {**_applicable(overrides, ablation.method, chosen), **ablation.settings}
        specs = resolve_grid(protocol, [ablation.method], seeds, settings, device=device)
        known = (one.specs[0].method_settings for one in planned if one.ablation.method == ablation.method)
        if specs[0].method_settings not in known:
            planned.append(PlannedAblation(ablation, specs))
    return planned


def _called(only: Sequence[str], methods: Sequence[str]) -> list[Ablation]:
    """The full forms, and the ablations of some names, or all."""
    own = [ablation for ablation in ABLATIONS if ablation.method in methods]
    known = {name.lower(): name for one in own for name in (one.alias, one.name) if name}
    for name in only:
        if name.lower() not in known:
            raise unknown_name("ablation", name, known.values())
    wanted = {name.lower() for name in only}
    return [one for one in own if not (only and one.name) or wanted & {one.name.lower(), one.alias.lower()}]


def _applicable(overrides: Mapping[str, Any], method: str, protocol: Protocol) -> dict[str, Any]:
    fields = {*registry.get_method(method).method.Config.model_fields, *type(protocol.defaults).model_fields}
    return {key: value for key, value in overrides.items() if key in fields}
