"""Settings chosen on validation images cut from the training data.

The search has two stages, the same for all methods: every combination of the values in the method's grid, and then, if
the method trains a network, the best of these once more with augmentation.
"""

import itertools
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.experiments.grid import Engine, RunsFailedError, execute_grid, in_this_process
from protoreplay.experiments.grid_queue import FailedRun, run_path
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import GridProgress
from protoreplay.experiments.spec import OtherSource, RunSpec, first_seeds, resolve, resolve_grid
from protoreplay.methods import presets, registry
from protoreplay.methods.base import EncoderSettings
from protoreplay.metrics.accuracy import average_accuracy
from protoreplay.streams.protocols import get_protocol

MOST_TASKS = 10
"""Settings are chosen on all tasks of a protocol, and where there are more, on the first ones, so many."""

AUGMENTATION: Mapping[str, Any] = {"augment_shift": 4, "augment_flip": True, "augment_colour": 0.2}
"""The augmentation that the second stage tries."""


@dataclass(frozen=True)
class TuningPlan:
    """What is searched, and on what.

    Attributes:
        protocol: whose validation streams the trials are run on.
        method: its name, without a preset.
        seeds: how many streams, from seed 1000 on.
        tasks: how many tasks of each; None for all, at most `MOST_TASKS`.
        overrides: settings of the method or the protocol that all trials have.
        vary: values to try, by setting of the method; they take the place of those in its own grid.
        encoder: turns images into features on the way in; empty where the method meets images.
    """

    protocol: str
    method: str
    seeds: int = 3
    tasks: int | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    encoder: str = ""

    def grid(self) -> dict[str, list[Any]]:
        """The values of the first stage, by setting; a wrong one is a `UserError`."""
        entry = registry.get_method(self.method, bool(self.encoder))
        wanted: Mapping[str, Sequence[Any]] = {**entry.search, **self.vary}
        if not wanted:
            known = ", ".join(name for name, entry in registry.METHODS.items() if entry.search)
            raise UserError(f"{self.method} has no settings to search: name some with --vary KEY=A,B, or take {known}")
        protocol = get_protocol(self.protocol)

        def typed(key: str, value: Any) -> Any:
            return getattr(registry.configure(self.method, protocol, {key: value}, bool(self.encoder)), key)

        return {key: list(dict.fromkeys(typed(key, value) for value in values)) for key, values in wanted.items()}

    def tries_augmentation(self) -> bool:
        """Whether there is a second stage: not where the augmentation is set or varied already, nor on features."""
        if self.encoder:
            return False
        trains = issubclass(registry.get_method(self.method).method.Config, EncoderSettings)
        return trains and not AUGMENTATION.keys() & (self.overrides.keys() | self.vary.keys())

    def command(self) -> str:
        """The command that does this."""
        words = ["protoreplay", "tune", self.protocol, "--method", self.method, "--seeds", str(self.seeds)]
        words += [] if self.tasks is None else ["--tasks", str(self.tasks)]
        words += ["--encoder", self.encoder] if self.encoder else []
        for key, value in self.overrides.items():
            words += ["--set", f"{key}={value}"]
        for key, values in self.vary.items():
            words += ["--vary", f"{key}={','.join(map(str, values))}"]
        return shlex.join(words)


@dataclass(frozen=True)
class Trial:
    """One candidate: its settings, and its mean average accuracy over the seeds, or the error if a run failed."""

    settings: Mapping[str, Any]
    accuracy: float | None
    error: str = ""


@dataclass(frozen=True)
class TuningResult:
    """What came of a search.

    Attributes:
        plan: with the number of tasks that were taken.
        trials: the best first, ties in the order in which they were tried, and those that failed last.
        tried: the values, by setting, of both stages.
    """

    plan: TuningPlan
    trials: list[Trial]
    tried: Mapping[str, list[Any]]

    def edges(self) -> list[str]:
        """A sentence for each number in the best trial that is the least or the greatest that was tried."""
        sentences = []
        for key, values in self.tried.items():
            if key in AUGMENTATION or len(values) < 2 or not all(type(value) in (int, float) for value in values):
                continue
            best = self.trials[0].settings[key]
            for edge, word in ((min(values), "smallest"), (max(values), "largest")):
                if best == edge:
                    remedy = f"widen the search with --vary {key}=A,B"
                    sentences.append(f"the best {key}, {best:g}, is the {word} that was tried: {remedy}")
        return sentences


def tune(
    plan: TuningPlan,
    root: Path,
    progress: GridProgress | None = None,
    engine: Engine = in_this_process,
    other_source: OtherSource = "refuse",
) -> TuningResult:
    """Run both stages of the search on validation streams.

    The runs live in `root` and are continued or reused like any others. A trial that fails does not stop the others;
    that all of the first stage do is a `RunsFailedError`.
    """
    if presets.split_name(plan.method)[0] != plan.method:
        raise UserError(f"{plan.method}: name the method without a preset")
    if "tasks" in plan.overrides:
        raise UserError(f"tasks={plan.overrides['tasks']} cannot be set: give --tasks {plan.overrides['tasks']}")
    tried = plan.grid()
    plan = replace(plan, tasks=_number_of_tasks(plan))
    in_grid = partial(_run_trials, plan, root=root, progress=progress, engine=engine, other_source=other_source)
    trials, failures = in_grid({}, tried)
    if trials[0].accuracy is None:
        raise RunsFailedError(failures)
    if plan.tries_augmentation():
        trials += in_grid({**trials[0].settings, **AUGMENTATION}, {})[0]
        without = resolve(plan.protocol, plan.method, 0, plan.overrides).method_settings
        tried |= {key: [getattr(without, key), value] for key, value in AUGMENTATION.items()}
    return TuningResult(plan, _best_first(trials), tried)


def _number_of_tasks(plan: TuningPlan) -> int:
    if plan.tasks is not None:
        return plan.tasks
    seed = first_seeds(1, "validation")[0]
    spec = _first_spec(plan, seed)
    return min(len(spec.protocol.stream(seed, spec.stream_settings, "validation")), MOST_TASKS)


def _first_spec(plan: TuningPlan, seed: int) -> RunSpec:
    """With the settings that all trials have."""
    return resolve(plan.protocol, plan.method, seed, plan.overrides, "validation", encoder=plan.encoder)


def _run_trials(
    plan: TuningPlan,
    settings: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    root: Path,
    progress: GridProgress | None,
    engine: Engine,
    other_source: OtherSource,
) -> tuple[list[Trial], list[FailedRun]]:
    """The trials of every combination of the grid's values, beside `settings`, the best first; and what failed."""
    given = {"tasks": plan.tasks, **plan.overrides, **settings}
    seeds = first_seeds(plan.seeds, "validation")
    found = resolve_grid(plan.protocol, [plan.method], seeds, given, "validation", grid, encoder=plan.encoder)
    specs = [replace(spec, other_source=other_source) for spec in found]
    failures: list[FailedRun] = []
    try:
        execute_grid(specs, root, progress, engine)
    except RunsFailedError as error:
        failures = error.failures
    errors = {run_path(root, failure.spec): failure.error for failure in failures}
    trials = []
    for values in itertools.product(*grid.values()):
        candidate = {**settings, **dict(zip(grid, values, strict=True))}
        own = [run_path(root, spec) for spec in specs if _has_settings(spec, candidate)]
        wrong = [errors[path] for path in own if path in errors]
        accuracy = None if wrong else statistics.mean(average_accuracy(RunFolder(path).counts()) for path in own)
        trials.append(Trial(candidate, accuracy, *wrong[:1]))
    return _best_first(trials), failures


def _has_settings(spec: RunSpec, settings: Mapping[str, Any]) -> bool:
    return all(getattr(spec.method_settings, key) == value for key, value in settings.items())


def _best_first(trials: list[Trial]) -> list[Trial]:
    return sorted(trials, key=lambda trial: float("inf") if trial.accuracy is None else -trial.accuracy)


def add_to(path: Path, result: TuningResult) -> None:
    """Write the best trial, and how it was found, into a file of presets.

    Settings of the method that all trials had are part of the preset: without them it is not what was measured.
    """
    plan, best = result.plan, result.trials[0]
    assert plan.tasks is not None
    assert best.accuracy is not None
    spec = _first_spec(plan, 0)
    of_stream = dict(spec.stream_settings)
    known_settings = dict(spec.method_settings) | of_stream
    fixed = {key: known_settings[key] for key in plan.overrides}
    found = presets.PresetEntry(
        preset="tuned",
        method=plan.method,
        protocol=plan.protocol,
        settings={**{key: value for key, value in fixed.items() if key not in of_stream}, **best.settings},
        source=presets.TuningRecord(
            command=plan.command(),
            tasks=plan.tasks,
            seeds=plan.seeds,
            validation_avg=round(100 * best.accuracy, 2),
            tried=dict(result.tried),
            fixed=fixed,
        ),
    )
    try:
        known = presets.parse_presets(path.read_text()) if path.exists() else []
    except ValueError:
        raise UserError(f"{path} is not a file of presets: give another one, or one that does not exist yet") from None
    write_whole(path, presets.dump_presets(known, found).encode())
