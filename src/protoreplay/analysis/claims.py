"""The paper's claims about split-cifar10, each held against the runs of a folder.

A claim is a range for one quantity of ours. It holds where the 95 % interval of that quantity lies inside the range,
does not hold where it lies outside, and is undecided in between.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from protoreplay.analysis.results import Group
from protoreplay.metrics.intervals import PairedComparison, paired_t_test

PROTOCOL = "split-cifar10"
KNOWN_CLASSES = tuple(range(2, 11))
PUBLISHED: Mapping[str, Any] = {"shots": 10, "epochs": 50}
PAPER: Mapping[str, Any] = {
    "dim": 500,
    "samples": 50,
    "weighted": True,
    "replay_order": "forward",
    "recall": "both",
    "fused": False,
    "replay_every": 1,
    "expectation": "sampled",
    "distance": "norm",
    "old_prototypes": "re-embedded",
    "prediction": "samples",
}


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper as a range for one quantity.

    Attributes:
        text: what is claimed.
        paper: the paper's figure, as it states it.
        quantity: `avg` is the first method's average minus the second's, in points; `above chance` the first's final
            accuracy minus chance, in points; `fewer numbers` how many percent fewer the first keeps than the second.
        first: a method's name.
        second: another, or the same without `change`.
        change: settings of the first that are not the paper's.
        low: lower end of the range in which the claim holds.
        high: its upper end.
        missing: what the runs of a folder cannot tell; empty where they can.
    """

    text: str
    paper: str
    quantity: Literal["avg", "above chance", "fewer numbers"] = "avg"
    first: str = "vpr-paper"
    second: str = "vpr-paper"
    change: Mapping[str, Any] = field(default_factory=dict)
    low: float = -math.inf
    high: float = math.inf
    missing: str = ""


CLAIMS: tuple[Claim, ...] = (
    Claim("VPR is ahead of L2, average over the nine tasks", "+2.5 points", second="l2", low=0),
    *(
        Claim(f"{name} falls to chance, here within 2 points", "chance", "above chance", first=name, second="", high=2)
        for name in ("sgd", "ewc", "online-ewc", "si", "mas", "icarl")
    ),
    Claim("VPR keeps fewer numbers than L2, here all that is kept", "33 % fewer", "fewer numbers", second="l2", low=33),
    Claim("Unweighted distance is worse", "-1.2 points", change={"weighted": False}, high=0),
    Claim("Replay from the latest task backward is worse", "-1.0 points", change={"replay_order": "backward"}, high=0),
    Claim("Replay of the latest task only is worse", "-1.3 points", change={"replay_order": "latest-only"}, high=0),
    Claim(
        "Recall of the mean only is much worse, here by over 1.3 points",
        "much worse",
        change={"recall": "mean"},
        high=-1.3,
    ),
    Claim(
        "Recall of the variance only is much worse, here by over 1.3 points",
        "much worse",
        change={"recall": "variance"},
        high=-1.3,
    ),
    Claim("Z = 100 is the same, here within 1 point", "same", change={"samples": 100}, low=-1, high=1),
    Claim("Z = 2 is worse", "-0.5 points", change={"samples": 2}, high=0),
    Claim("Dimension 1000 is better", "+0.7 points", change={"dim": 1000}, low=0),
    Claim("Dimension 10 is worse", "worse", change={"dim": 10}, high=0),
    Claim("Visual similarity goes with prototype motion", "correlation 0.44", missing="see `protoreplay analyze`"),
)


def any_measured(groups: Sequence[Group]) -> bool:
    """Whether the runs say something of any claim."""
    eligible = [group for group in groups if _eligible(group)]
    return any(_measure(claim, eligible) for claim in CLAIMS)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what the runs measure of it (None where they lack it), and the verdict."""

    claim: Claim
    ours: PairedComparison | None
    verdict: str


def judge(groups: Sequence[Group], claims: Sequence[Claim] = CLAIMS) -> list[JudgedClaim]:
    """Hold each claim against the runs."""
    eligible = [group for group in groups if _eligible(group)]
    measured = [(claim, _measure(claim, eligible)) for claim in claims]
    return [JudgedClaim(claim, ours, _verdict(claim, ours)) for claim, ours in measured]


def _eligible(group: Group) -> bool:
    config = group.results[0].config
    settings = {**config.protocol.settings, **config.method.settings}
    return (
        group.protocol == PROTOCOL
        and config.evaluation == "test"
        and config.known_classes == KNOWN_CLASSES
        and all(settings.get(key, value) == value for key, value in PUBLISHED.items())
    )


def _measure(claim: Claim, groups: Sequence[Group]) -> PairedComparison | None:
    """The claim's quantity over seeds, None where the runs lack it; of several candidates that with most seeds."""
    if claim.missing:
        return None
    found = []
    for first in _with_papers_settings(groups, claim.first, claim.change):
        if claim.quantity == "above chance":
            chance = first.chance()[-1]
            found.append([value - chance for value in first.values["final"].values()])
            continue
        for second in _with_papers_settings(groups, claim.second, {}):
            if claim.first == claim.second and not _same_but(first, second, claim.change):
                continue
            key = "avg" if claim.quantity == "avg" else "kept_numbers"
            ours, theirs = first.values[key], second.values[key]
            pairs = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
            found.append([a - b if key == "avg" else 100 * (1 - a / b) for a, b in pairs])
    best = max(found, key=len, default=[])
    return paired_t_test(best) if best else None


def _with_papers_settings(groups: Sequence[Group], name: str, change: Mapping[str, Any]) -> list[Group]:
    """The groups of a method with the paper's settings, but for `change`."""
    wanted = {**PAPER, **change} if name == "vpr-paper" else {}
    return [
        group
        for group in groups
        if group.results[0].config.method.name == name and wanted.items() <= _settings(group).items()
    ]


def _same_but(first: Group, second: Group, change: Mapping[str, Any]) -> bool:
    ours, theirs = ({k: v for k, v in _settings(group).items() if k not in change} for group in (first, second))
    return ours == theirs


def _settings(group: Group) -> dict[str, Any]:
    return group.results[0].config.method.settings


def _verdict(claim: Claim, ours: PairedComparison | None) -> str:
    if ours is None:
        return "not measured"
    if ours.low is None or ours.high is None:
        return "undecided"
    if claim.low <= ours.low and ours.high <= claim.high:
        return "holds"
    return "does not hold" if ours.high < claim.low or ours.low > claim.high else "undecided"
