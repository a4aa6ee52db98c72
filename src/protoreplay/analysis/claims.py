"""What the paper claims of split-cifar10, and how each claim is measured on finished runs.

A claim is a range for one quantity of ours, or for several of which all have to lie in it. `verdicts.py` judges.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from protoreplay.analysis.motion import MotionRecord
from protoreplay.analysis.results import Group
from protoreplay.methods import registry
from protoreplay.metrics import accuracy
from protoreplay.streams.protocols import get_protocol

PROTOCOL = "split-cifar10"
KNOWN_CLASSES = tuple(range(2, 11))
PUBLISHED: Mapping[str, Any] = {"shots": 10, "epochs": 50}
SINCE: Mapping[str, Any] = {"optimizer": "adam", "first_epochs": "epochs", "new_loss": "new images", "trunk": "trained"}
"""Of the paper's form, what runs do not say that were made before there was a choice, or that did not use it."""
PAPER: Mapping[str, Any] = {
    **SINCE,
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
"""The form in the paper's text, with the optimiser that validation streams chose. They chose the learning rate and the
temperature too, so these are free."""
COMPARED = ("sgd", "l2", "ewc", "online-ewc", "si", "mas", "icarl")
"""The methods that the paper compares VPR with."""
NEAR = 2.0
"""Points within which an accuracy counts as chance, and a loss as none."""
MUCH = 1.3
"""Points beyond which a drop counts as much: the largest one that the paper's text gives a number for."""
MOMENTS = "optimizer"
"""What the ledger calls the moments of an optimiser that goes on from task to task."""
VARIANCELESS: Mapping[str, Any] = {"expectation": "means", "weighted": False}


class Form(NamedTuple):
    """A method with the paper's settings, but for `change`."""

    method: str
    change: Mapping[str, Any] = {}


VPR = Form("vpr-paper")
Members = dict[str, list[float]]
"""By name, what a claim is about, one value a seed; a claim about one quantity calls it ''."""
SeedValues = Mapping[int, float]


@dataclass(frozen=True)
class Evidence:
    """What claims are held against: the runs that are as the paper's, and how prototypes moved, if that is known."""

    groups: Sequence[Group]
    motion: MotionRecord | None = None

    def of(self, form: Form) -> list[Group]:
        """The groups of a form: first those with the settings that a run has by default, then those of most seeds."""
        wanted = {**PAPER, **form.change} if form.method == VPR.method else {}
        found = [
            group
            for group in self.groups
            if group.results[0].config.method.name == form.method and _is_made_with(_settings_of(group), wanted)
        ]
        usual = dict(registry.configure(form.method, get_protocol(PROTOCOL), form.change))
        return sorted(found, key=lambda group: (not _settings_of(group).items() <= usual.items(), -len(group.results)))

    def pair(self, first: Form, second: Form) -> tuple[Group, Group] | None:
        """Groups of two forms: those that share most seeds, and of one method differ in nothing but the change."""
        changed = {*first.change, *second.change}
        pairs = [
            (one, other)
            for one in self.of(first)
            for other in self.of(second)
            if first.method != second.method or _without(one, changed) == _without(other, changed)
        ]
        return max(pairs, key=lambda pair: len(_common_seeds(pair)), default=None)


def _is_made_with(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return wanted.items() <= {**SINCE, **settings}.items()


def _settings_of(group: Group) -> dict[str, Any]:
    return group.results[0].config.method.settings


def _without(group: Group, keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in _settings_of(group).items() if key not in keys}


def _common_seeds(pair: tuple[Group, Group]) -> list[int]:
    first, second = ({result.config.seed for result in group.results} for group in pair)
    return sorted(first & second)


Measure = Callable[[Evidence], Members]
"""What a claim is about; nothing where the runs lack a part of it."""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper as a range for what is measured.

    Attributes:
        text: what is claimed, of `vpr-paper` where it says VPR.
        paper: the paper's figure, as it states it.
        measure: ours.
        command: what makes the runs that it is measured on.
        low: lower end of the range in which the claim holds.
        high: its upper end.
        size: the paper's number, None where it gives none.
        change: of an ablation, the settings that are not the paper's.
        unit: of the quantity.
        counted: whether it is a plain count, which needs no test.
        matters: whether it is one of the three that a reader should know.
    """

    text: str
    paper: str
    measure: Measure
    command: str
    low: float = -math.inf
    high: float = math.inf
    size: float | None = None
    change: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "points"
    counted: bool = False
    matters: bool = False


def _against(others: Sequence[str], of: Callable[[Group], Mapping[str, SeedValues]]) -> Measure:
    """VPR's value minus that of each of the others, on common seeds."""
    return lambda evidence: _all_of([_differences(evidence, VPR, Form(name), of, name) for name in others])


def _differences(
    evidence: Evidence, first: Form, second: Form, of: Callable[[Group], Mapping[str, SeedValues]], name: str = ""
) -> Members:
    pair = evidence.pair(first, second)
    seeds = _common_seeds(pair) if pair else []
    if not pair or not seeds:
        return {}
    ours, theirs = map(of, pair)
    return {part or name: [ours[part][seed] - theirs[part][seed] for seed in seeds] for part in ours}


def _alone(methods: Sequence[str], of: Callable[[Group], SeedValues]) -> Measure:
    """The value of each of some methods."""

    def measure(evidence: Evidence) -> Members:
        found = [(name, evidence.of(Form(name))) for name in methods]
        return _all_of([{name: list(of(groups[0]).values())} if groups else {} for name, groups in found])

    return measure


def _all_of(parts: Sequence[Members]) -> Members:
    return {name: values for part in parts for name, values in part.items()} if all(parts) else {}


def _ablated(change: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Measure:
    """The average with a change minus that of the paper's form, or of another change."""
    return lambda evidence: _differences(evidence, Form(VPR.method, change), Form(VPR.method, before or {}), _average)


def _average(group: Group) -> dict[str, SeedValues]:
    return {"": group.values["avg"]}


def _forgetting(group: Group) -> dict[str, SeedValues]:
    return {"": group.values["forgetting"]}


def _each_task(group: Group) -> dict[str, SeedValues]:
    curves = {result.config.seed: accuracy.accuracies(result.counts) for result in group.results}
    tasks = range(group.results[0].config.tasks)
    return {f"task {task + 1}": {seed: 100 * curve[task] for seed, curve in curves.items()} for task in tasks}


def _above_chance(group: Group, position: int) -> SeedValues:
    chance = group.chance()[position]
    curves = {result.config.seed: accuracy.accuracies(result.counts) for result in group.results}
    return {seed: 100 * curve[position] - chance for seed, curve in curves.items()}


def _at_first(group: Group) -> SeedValues:
    return _above_chance(group, 0)


def _at_last(group: Group) -> SeedValues:
    return _above_chance(group, -1)


def _newest_above_chance(group: Group) -> SeedValues:
    """Mean over the tasks from the second on of the accuracy on the task just learned, minus chance."""
    chances = list(enumerate(group.chance(), start=1))[1:]
    return {
        result.config.seed: math.fsum(100 * learned[task, task] - chance for task, chance in chances) / len(chances)
        for result in group.results
        for learned in [accuracy.accuracy_matrix(result.counts)]
    }


def _first_task_change(group: Group) -> SeedValues:
    curves = {result.config.seed: accuracy.first_task_accuracies(result.counts) for result in group.results}
    return {seed: 100 * (curve[-1] - curve[0]) for seed, curve in curves.items()}


def _fewer_numbers(others: Sequence[str], moments: bool) -> Measure:
    """By how many percent VPR keeps fewer numbers than each of the others; what is kept has to be known by name."""

    def kept(group: Group) -> int:
        items = group.results[0].kept_items
        return sum(numbers for name, numbers in items.items() if moments or name != MOMENTS)

    def measure(evidence: Evidence) -> Members:
        pairs = [(name, evidence.pair(VPR, Form(name))) for name in others]
        counted = {name: (kept(pair[0]), kept(pair[1])) for name, pair in pairs if pair}
        known = len(counted) == len(others) and all(map(all, counted.values()))
        return {name: [100 * (1 - ours / theirs)] for name, (ours, theirs) in counted.items()} if known else {}

    return measure


def _of_motion(which: str) -> Measure:
    def measure(evidence: Evidence) -> Members:
        by_seed: SeedValues = getattr(evidence.motion, which, {})
        return {"": list(by_seed.values())} if by_seed else {}

    return measure


def _bench(*methods: str) -> str:
    return f"protoreplay bench {PROTOCOL} --methods {','.join(methods)} --seeds 40 --out RUNS"


_ALL = _bench(VPR.method, *COMPARED)
_ABLATE = f"protoreplay ablate {PROTOCOL} --methods {VPR.method} --seeds 40 --out RUNS"
_KEEP = (
    f"protoreplay bench {PROTOCOL} --methods {VPR.method} --seeds 10 --keep-prototypes --out KEPT; "
    "protoreplay analyze KEPT -o RUNS"
)


def _ablation(
    text: str, paper: str, change: Mapping[str, Any], low: float = -math.inf, high: float = math.inf, **more: Any
) -> Claim:
    return Claim(text, paper, _ablated(change), _ABLATE, low, high, change=change, **more)


_LATEST, _BACKWARD = {"replay_order": "latest-only"}, {"replay_order": "backward"}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "VPR has the highest average accuracy of all compared methods",
        "highest",
        _against(COMPARED, _average),
        _ALL,
        low=0,
        matters=True,
    ),
    Claim(
        "VPR is ahead of L2 on average over the nine tasks",
        "+2.5 points",
        _against(["l2"], _average),
        _ALL,
        low=0,
        size=2.5,
        matters=True,
    ),
    Claim("VPR is ahead of L2 in every one of the nine tasks", "every task", _against(["l2"], _each_task), _ALL, low=0),
    Claim(
        "VPR is ahead of L2 with L2's tuned settings too",
        "ahead",
        _against(["l2@tuned"], _average),
        _bench(VPR.method, "l2@tuned"),
        low=0,
    ),
    Claim("VPR forgets least of all compared methods", "minimum", _against(COMPARED, _forgetting), _ALL, high=0),
    Claim("At first all methods are above chance", "above", _alone([VPR.method, *COMPARED], _at_first), _ALL, low=0),
    *(
        Claim(
            f"{name} falls to chance, here within {NEAR:g} points at the end",
            "chance",
            _alone([name], _at_last),
            _ALL,
            high=NEAR,
        )
        for name in COMPARED
        if name != "l2"
    ),
    Claim(
        f"l2 does not fall to chance, here over {NEAR:g} points above it at the end",
        "above",
        _alone(["l2"], _at_last),
        _ALL,
        low=NEAR,
    ),
    Claim(
        f"VPR does not harm the first task, here it loses under {NEAR:g} points",
        "not harmed",
        _alone([VPR.method], _first_task_change),
        _ALL,
        low=-NEAR,
    ),
    Claim(
        "VPR learns new classes from ten images, here the newest is known above chance",
        "learned",
        _alone([VPR.method], _newest_above_chance),
        _ALL,
        low=0,
    ),
    *(
        Claim(
            f"VPR keeps fewer numbers than {names}, the optimiser's moments of {whose} counted",
            "33 % fewer",
            _fewer_numbers(others, moments=whose == "both"),
            _ALL,
            low=0,
            size=33,
            unit="%",
            counted=True,
        )
        for names, others in (("L2", ["l2"]), ("online EWC, SI and MAS", ["online-ewc", "si", "mas"]))
        for whose in ("both", "neither")
    ),
    _ablation(
        f"Prototypes without variance are much worse, here by over {MUCH} points",
        "much worse",
        VARIANCELESS,
        high=-MUCH,
        matters=True,
    ),
    _ablation("Unweighted distance (NoWeightEucli) is worse", "-1.2 points", {"weighted": False}, high=0, size=-1.2),
    _ablation("Replay backward (replaySeqBack) is worse", "-1.0 points", _BACKWARD, high=0, size=-1.0),
    _ablation("Replay of the latest task only (replaySeqCurr) is worse", "-1.3 points", _LATEST, high=0, size=-1.3),
    Claim(
        "replaySeqCurr is worse than replaySeqBack",
        "-0.3 points",
        _ablated(_LATEST, _BACKWARD),
        _ABLATE,
        high=0,
        size=-0.3,
    ),
    *(
        _ablation(
            f"Recall of the {what} only ({alias}) is much worse, here by over {MUCH} points",
            "much worse",
            {"recall": what},
            high=-MUCH,
        )
        for what, alias in (("mean", "recalMean"), ("variance", "recalVar"))
    ),
    _ablation("Z = 100 (numProto100) is the same, here within 1 point", "same", {"samples": 100}, -1, 1, size=0),
    _ablation("Z = 2 (numProto2) is worse", "-0.5 points", {"samples": 2}, high=0, size=-0.5),
    _ablation("Dimension 1000 (repSz1000) is better", "+0.7 points", {"dim": 1000}, low=0, size=0.7),
    _ablation("Dimension 10 (repSz10) is worse", "vice versa", {"dim": 10}, high=0),
    Claim("Prototypes move away from the centre", "away", _of_motion("outward"), _KEEP, low=0, unit="%"),
    Claim(
        "Classes that look alike move alike",
        "correlation 0.44",
        _of_motion("correlation"),
        _KEEP,
        low=0,
        size=0.44,
        unit="",
    ),
)


def gather_evidence(groups: Sequence[Group], motion: MotionRecord | None = None) -> Evidence:
    """What counts of runs and motion: the paper's protocol, images, tasks, shots and epochs, tested on test images."""
    counts = motion is not None and _is_papers(motion) and _is_made_with(motion.method.settings, PAPER)
    made = ((group, group.results[0].config) for group in groups)
    kept = [group for group, config in made if config.encoder is None and _is_papers(config)]
    return Evidence(kept, motion if counts else None)


def _is_papers(made: Any) -> bool:
    """Of a run's configuration, or a record of motion."""
    settings = {**made.protocol.settings, **made.method.settings}
    return (
        made.protocol.name == PROTOCOL
        and made.evaluation == "test"
        and made.known_classes == KNOWN_CLASSES
        and all(settings.get(key, value) == value for key, value in PUBLISHED.items())
    )
