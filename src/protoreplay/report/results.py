"""Finished runs, read from disk and grouped by what was compared."""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protoreplay import evaluation
from protoreplay.errors import UserError
from protoreplay.evaluation import Count
from protoreplay.experiments.folder import RunFolder


@dataclass(frozen=True)
class Result:
    """One finished run."""

    config: dict[str, Any]
    counts: list[Count]
    seconds: float
    kept_numbers: int
    kept_bytes: int


@dataclass(frozen=True)
class Group:
    """The runs of one method with one set of settings on one protocol, over seeds."""

    protocol: str
    label: str
    results: list[Result]

    def curves(self) -> list[list[float]]:
        """For each seed, the accuracy in percent on everything seen after each task."""
        return [[100 * value for value in evaluation.accuracies(result.counts)] for result in self.results]

    def chance(self) -> list[float]:
        """The accuracy in percent of guessing among the classes seen, after each task."""
        return [100 / known for known in self.results[0].config["known_classes"]]


def collect(root: Path) -> tuple[list[Group], int]:
    """The finished runs under `root`, and how many more are unfinished. None at all is a `UserError`."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder: give one that `protoreplay bench` or `run` wrote to")
    results, unfinished = [], 0
    for path in sorted(root.rglob("config.json")):
        folder = RunFolder(path.parent)
        if folder.finished():
            results.append(_read(folder))
        else:
            unfinished += 1
    if not results:
        raise UserError(f"{root} holds no finished run ({unfinished} unfinished): run `protoreplay bench` first")
    return _group(results), unfinished


def _read(folder: RunFolder) -> Result:
    events = folder.events()
    kept = events[-1]["kept"]
    return Result(
        config=folder.config(),
        counts=folder.counts(),
        seconds=sum(event["learn_seconds"] + event["test_seconds"] for event in events),
        kept_numbers=sum(item["numbers"] for item in kept),
        kept_bytes=sum(item["bytes"] for item in kept),
    )


def _group(results: list[Result]) -> list[Group]:
    """Groups in the order of their average accuracy; where a method occurs more than once, its label says how."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        identity = {key: value for key, value in result.config.items() if key not in ("seed", "versions")}
        groups.setdefault(json.dumps(identity, sort_keys=True), []).append(result)
    configs = [members[0].config for members in groups.values()]
    labelled = [
        Group(config["protocol"]["name"], _label(config, configs), sorted(members, key=lambda r: r.config["seed"]))
        for config, members in zip(configs, groups.values(), strict=True)
    ]
    return sorted(labelled, key=lambda group: (group.protocol, -_average(group)))


def _average(group: Group) -> float:
    return statistics.mean(evaluation.average(result.counts) for result in group.results)


def _label(config: dict[str, Any], configs: list[dict[str, Any]]) -> str:
    """The method's name, with those settings in which runs of the same method and protocol differ."""
    same = [
        _settings(other)
        for other in configs
        if other["method"]["name"] == config["method"]["name"]
        and other["protocol"]["name"] == config["protocol"]["name"]
    ]
    differing = [f"{key}={value}" for key, value in _settings(config).items() if any(o.get(key) != value for o in same)]
    return " ".join([config["method"]["name"], *differing])


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    return {**config["protocol"]["settings"], **config["method"]["settings"], "evaluation": config["evaluation"]}
