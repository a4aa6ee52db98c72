"""Finished runs, read from disk and grouped by what was compared."""

import csv
import functools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.core.registry import short_names
from protoreplay.experiments.run_config import RunConfig
from protoreplay.experiments.run_folder import RunFolder, find_run_folders, seconds_of
from protoreplay.metrics import accuracy
from protoreplay.metrics.accuracy import Count
from protoreplay.metrics.answer_metrics import expected_calibration_error
from protoreplay.metrics.intervals import SeedSummary, student_interval, summarise

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """One finished run.

    Attributes:
        config: which run it is.
        counts: right answers on each task after each task.
        seconds: of learning and testing.
        kept_numbers: all that is carried from task to task, in numbers.
        kept_bytes: the same in bytes.
        kept_items: by name, the numbers of each thing that is carried; empty where that was not recorded.
        folder: where it lives; none of recorded runs.
    """

    config: RunConfig
    counts: list[Count]
    seconds: float
    kept_numbers: int
    kept_bytes: int
    kept_items: Mapping[str, int] = field(default_factory=dict)
    folder: RunFolder | None = field(default=None, compare=False, repr=False)

    @property
    def test_images(self) -> int:
        """How many there were, of all tasks."""
        return sum(row.n for row in self.counts if row.trained == self.config.tasks)

    def answers(self, name: str) -> list[Any]:
        """The rows of one of `run_folder.ANSWER_ROWS`, none of runs that are older than they are."""
        return self.folder.answers(name) if self.folder else []


@dataclass(frozen=True)
class Metric:
    """One quantity of a run, and how people read it.

    Attributes:
        heading: of its column.
        of: its value.
        accuracy: whether it is made of accuracies, in percent; those are compared between methods.
        digits: after the point.
        best: which end of it is the better one.
    """

    heading: str
    of: Callable[[Result], float]
    accuracy: bool = True
    digits: int = 1
    best: Literal["highest", "lowest"] = "highest"


def _percent(of: Callable[[list[Count]], float]) -> Callable[[Result], float]:
    return lambda result: 100 * of(result.counts)


def _top5(of: Callable[[list[Count]], float]) -> Callable[[Result], float]:
    return lambda result: 100 * of(rows) if (rows := result.answers("top5")) else float("nan")


def _calibration_error(result: Result) -> float:
    return 100 * expected_calibration_error(result.answers("calibration"))


METRICS: dict[str, Metric] = {
    "avg": Metric("avg %", _percent(accuracy.average_accuracy)),
    "final": Metric("final %", _percent(accuracy.final_accuracy)),
    "forgetting": Metric("forgetting", _percent(accuracy.forgetting), best="lowest"),
    "backward_transfer": Metric("backward transfer", _percent(accuracy.backward_transfer)),
    "first_task_retention": Metric("first task kept %", _percent(accuracy.first_task_retention)),
    "performance_drop": Metric("drop", _percent(accuracy.performance_drop), best="lowest"),
    "seconds": Metric("seconds", lambda result: result.seconds, accuracy=False, best="lowest"),
    "kept_numbers": Metric("kept numbers", lambda result: result.kept_numbers, False, 0, "lowest"),
    "kept_bytes": Metric("kept bytes", lambda result: result.kept_bytes, False, 0, "lowest"),
}
RECORDED = tuple(METRICS)
"""What a table for programs has; the others are computed on request."""
METRICS |= {
    "base": Metric("base %", _percent(accuracy.base_accuracy)),
    "novel": Metric("novel %", _percent(accuracy.novel_accuracy)),
    "harmonic": Metric("harmonic mean %", _percent(accuracy.harmonic_accuracy)),
    "top5": Metric("top-5 avg %", _top5(accuracy.average_accuracy)),
    "top5_final": Metric("top-5 final %", _top5(accuracy.final_accuracy)),
    "calibration_error": Metric("calibration error", _calibration_error, best="lowest"),
    # The same quantities under the names that other libraries and papers have for them.
    "average_incremental_accuracy": replace(METRICS["avg"], heading="average incremental accuracy %"),
    "last_accuracy": replace(METRICS["final"], heading="last accuracy %"),
    "bwt": replace(METRICS["backward_transfer"], heading="BWT"),
    "pd": replace(METRICS["performance_drop"], heading="PD"),
    "hm": Metric("HM", _percent(accuracy.harmonic_accuracy)),
}


class _Computed(dict[str, T]):
    """Values by name, each computed when it is first asked for: some need files to be read."""

    def __init__(self, compute: Callable[[str], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> T:
        return self.setdefault(key, self._compute(key))


@dataclass(frozen=True)
class Group:
    """The runs of one method with one set of settings on one kind of stream, over seeds.

    Attributes:
        protocol: the stream's; where runs of several streams stand side by side, also how it differs from the others.
            Only groups of the same can be compared.
        label: the method's, and how its settings differ from those of other groups.
        results: one a seed.
    """

    protocol: str
    label: str
    results: list[Result]

    @functools.cached_property
    def values(self) -> Mapping[str, dict[int, float]]:
        """By metric and seed, its value; NaN where the run does not tell it."""
        return _Computed(lambda key: {result.config.seed: METRICS[key].of(result) for result in self.results})

    @functools.cached_property
    def summaries(self) -> Mapping[str, SeedSummary]:
        """By metric, its summary over seeds."""
        known = summarise([list(self.values[key].values()) for key in RECORDED])
        rest = _Computed[SeedSummary](lambda key: summarise([list(self.values[key].values())])[0])
        rest.update(zip(RECORDED, known, strict=True))
        return rest

    @functools.cached_property
    def accuracy(self) -> "Curve":
        """On everything seen after each task."""
        return _curve([accuracy.accuracies(result.counts) for result in self.results])

    @functools.cached_property
    def first_task(self) -> "Curve":
        """On the first task after each task."""
        return _curve([accuracy.first_task_accuracies(result.counts) for result in self.results])

    @functools.cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Tasks x tasks, accuracy in percent on task j after task i, mean over seeds; NaN where j was not learned."""
        tasks = self.results[0].config.tasks
        total = np.full((tasks, tasks), np.nan)
        total[np.tril_indices(tasks)] = 0
        for result in self.results:
            for row in result.counts:
                if row.tested <= row.trained:
                    total[row.trained - 1, row.tested - 1] += 100 * row.correct / row.n
        return total / len(self.results)

    @functools.cached_property
    def outdated(self) -> list[str]:
        """The parts of its runs, such as `method`, whose source code has changed since."""
        return sorted({part for result in self.results for part in result.config.outdated_code()})

    def chance(self) -> list[float]:
        """The accuracy in percent of guessing among the classes seen, after each task."""
        return [100 / known for known in self.results[0].config.known_classes]


class Curve(NamedTuple):
    """After each task, in percent: the mean over seeds and the ends of Student's interval for it."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def _curve(fractions: list[list[float]]) -> Curve:
    values = 100 * np.asarray(fractions, dtype=np.float64)
    mean = values.mean(axis=0)
    return Curve(mean, *student_interval(values)) if len(values) > 1 else Curve(mean, mean, mean)


def groups_labelled(groups: Sequence[Group], label: str) -> list[Group]:
    """The groups with a label, one a protocol; none at all is a `UserError`."""
    found = [group for group in groups if group.label == label]
    if not found:
        raise unknown_name("method", label, [group.label for group in groups], " in this folder")
    return found


def collect(*roots: Path | str) -> tuple[list[Group], int]:
    """The finished runs under `roots`, and how many more are unfinished. None at all is a `UserError`.

    A root holds run folders, or what is recorded of some. A run that stands under several of them counts once.
    """
    results: dict[str, Result] = {}
    unfinished = 0
    for root in map(Path, roots):
        recorded = (root / CONFIGS).exists()
        found = _recorded_results(root) if recorded else [read_result(folder) for folder in find_run_folders(root)]
        unfinished += found.count(None)
        for result in filter(None, found):
            key = json.dumps([result.config.without_seed(), result.config.seed], sort_keys=True)
            results.setdefault(key, result)
    if not results:
        places = ", ".join(map(str, roots))
        raise UserError(f"{places} has no finished runs ({unfinished} unfinished): run `protoreplay bench` first")
    return _group(list(results.values())), unfinished


CONFIGS, KEPT = "configs.json", "kept.json"
"""Of recorded runs, by label: their settings, and the numbers of each thing that is kept."""


def recorded_groups(folder: Path) -> list[Group]:
    """The runs recorded in a folder, as they were collected from the runs themselves."""
    known, kept = (_by_label(folder / name) for name in (CONFIGS, KEPT))
    counts: dict[str, dict[int, list[Count]]] = defaultdict(lambda: defaultdict(list))
    with (folder / "counts.csv").open(newline="") as file:
        for label, seed, *numbers in list(csv.reader(file))[1:]:
            counts[label][int(seed)].append(Count(*map(int, numbers)))
    found = []
    for row in json.loads((folder / "table.json").read_text()):
        label = row["method"]
        config = known.get(label) or _without_settings(row)
        measured = row["seconds"], row["kept_numbers"], row["kept_bytes"], kept.get(label, {})
        results = [
            Result(RunConfig(**config, seed=seed, versions={}), rows, *measured) for seed, rows in counts[label].items()
        ]
        found.append(Group(row["protocol"], label, results))
    return found


def _recorded_results(folder: Path) -> list[Result | None]:
    return [result for group in recorded_groups(folder) for result in group.results]


def _by_label(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _without_settings(row: dict[str, Any]) -> dict[str, Any]:
    """For folders of before settings were recorded: they can be shown, but not held against claims."""
    protocol, method = ({"name": row[key], "settings": {}} for key in ("protocol", "method"))
    return {"protocol": protocol, "method": method, "known_classes": [], "evaluation": "test"}


def read_result(folder: RunFolder) -> Result | None:
    """The run in a folder, None where none is finished. Each file is read once: there may be thousands of runs."""
    finished = folder.finished_run()
    if finished is None:
        return None
    if not folder.has_events():
        raise UserError(
            f"{folder.path} has a finished run without events.jsonl: repeat the run or move its folder away"
        )
    events = folder.events()
    try:
        seconds, kept = seconds_of(events), events[-1]["kept"]
        numbers, size = (sum(item[key] for item in kept) for key in ("numbers", "bytes"))
        items = {item["name"]: item["numbers"] for item in kept}
    except (TypeError, KeyError, IndexError):
        raise UserError(f"{folder.path / 'events.jsonl'} is not the event log of a finished run") from None
    return Result(*finished, seconds=seconds, kept_numbers=numbers, kept_bytes=size, kept_items=items, folder=folder)


def _group(results: list[Result]) -> list[Group]:
    """Groups in the order of their average accuracy, those of one stream together.

    Where a protocol or a method occurs more than once, its label says how.
    """
    groups: dict[str, list[tuple[Result, dict[str, Any]]]] = {}
    for result, said, other in zip(results, _with_new_settings(results), _other_images(results), strict=True):
        groups.setdefault(json.dumps([said, other], sort_keys=True), []).append((result, other))
    configs = [members[0][0].config for members in groups.values()]
    short = short_names(dict.fromkeys(config.method.name for config in configs))
    names = [stream_name(config) for config in configs]
    settings = [_stream_settings(members[0][0].config) | members[0][1] for members in groups.values()]
    streams = _labels([(name, name, said) for name, said in zip(names, settings, strict=True)])
    labels = _labels(
        [
            ((stream, config.method.name), short[config.method.name], config.method.settings)
            for stream, config in zip(streams, configs, strict=True)
        ]
    )
    found = [
        Group(stream, label, sorted((result for result, _ in members), key=lambda result: result.config.seed))
        for stream, label, members in zip(streams, labels, groups.values(), strict=True)
    ]
    return sorted(found, key=lambda group: (group.protocol, -group.summaries["avg"].mean))


def _other_images(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Of each run, by name, what tells it from others of the same settings that met other data: a folder may grow.

    How many classes there were, and how many test images where runs of one seed had different ones.
    """
    streams = [json.dumps([stream_name(one.config), _stream_settings(one.config)], sort_keys=True) for one in results]
    classes, images = defaultdict[str, set[int]](set), defaultdict[tuple[str, int], set[int]](set)
    for stream, one in zip(streams, results, strict=True):
        classes[stream].add(max(one.config.known_classes, default=0))
        images[stream, one.config.seed].add(one.test_images)
    changed = {stream for (stream, _), numbers in images.items() if len(numbers) > 1}
    return [
        ({"classes": max(one.config.known_classes, default=0)} if len(classes[stream]) > 1 else {})
        | ({"images": one.test_images} if stream in changed else {})
        for stream, one in zip(streams, results, strict=True)
    ]


def _with_new_settings(results: list[Result]) -> list[dict[str, Any]]:
    """What each run is, without its seed; settings that came after an older run have their default in it.

    Where all runs of a method say the same settings, which is the usual case, the method need not be known here.
    """
    said = [result.config.without_seed() for result in results]
    keys: dict[str, set[str]] = defaultdict(set)
    for one in said:
        keys[one["method"]["name"]] |= one["method"]["settings"].keys()
    for one in said:
        name, settings = one["method"]["name"], one["method"]["settings"]
        if settings and keys[name] - settings.keys():
            one["method"]["settings"] = {**_default_settings(name, keys[name] - settings.keys()), **settings}
    return said


def _default_settings(method: str, wanted: set[str]) -> dict[str, Any]:
    """What a method of this name has; nothing where there is none any more."""
    from protoreplay.methods.registry import get_method  # here, because it takes seconds and is seldom needed

    try:
        config = get_method(method).method.Config()
    except UserError:
        return {}
    return {key: value for key, value in config.model_dump(mode="json").items() if key in wanted}


def _labels(named: Sequence[tuple[Hashable, str, Mapping[str, Any]]]) -> list[str]:
    """Of families, names and settings: the names, each with the settings that are not the usual ones of its family."""
    families: dict[Hashable, list[Mapping[str, Any]]] = defaultdict(list)
    for family, _, settings in named:
        if settings not in families[family]:
            families[family].append(settings)
    usual = {family: _usual(members) for family, members in families.items()}
    return [
        " ".join([name, *(f"{key}={own[key]}" for key in own if usual[family].get(key, ...) != own[key])])
        for family, name, own in named
    ]


def _usual(family: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The commonest value of each setting among variants of a method; where two are as common, none."""
    usual = {}
    for key in family[0]:
        values = [settings.get(key) for settings in family]
        (text, times), *others = Counter(map(repr, values)).most_common(2)
        if not others or times > others[0][1]:
            usual[key] = next(value for value in values if repr(value) == text)
    return usual


def _stream_settings(config: RunConfig) -> dict[str, Any]:
    """All that makes runs of one protocol incomparable."""
    settings = {**config.protocol.settings, "evaluation": config.evaluation}
    return settings if config.encoder is None else {**settings, "fingerprint": config.encoder.fingerprint[:8]}


def stream_name(config: RunConfig) -> str:
    """The protocol, and which encoder turned its images into features, if any did: other features are other data."""
    name = config.protocol.name
    return name if config.encoder is None else f"{name} on {config.encoder.name}"
