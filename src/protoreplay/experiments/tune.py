"""Settings chosen on validation images cut from the training data of the first two tasks."""

import itertools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.experiments.grid import Engine, execute_grid, in_this_process
from protoreplay.experiments.grid_queue import run_path
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import GridProgress
from protoreplay.experiments.spec import first_seeds, resolve_grid
from protoreplay.methods import presets, registry
from protoreplay.metrics.accuracy import average_accuracy

TASKS = 2


@dataclass(frozen=True)
class Trial:
    """One candidate: its settings, and its mean average accuracy over the seeds."""

    settings: Mapping[str, Any]
    accuracy: float


def tune(
    protocol: str,
    method: str,
    seeds: int,
    root: Path,
    overrides: Mapping[str, Any] | None = None,
    progress: GridProgress | None = None,
    engine: Engine = in_this_process,
) -> list[Trial]:
    """Run every candidate of the method's grid on the validation streams; the best first, ties in the grid's order.

    The runs live in `root` and are continued or reused like any others. `overrides` apply to all of them.
    """
    if "tasks" in (overrides or {}):
        raise UserError(f"tasks cannot be set: settings are chosen on the first {TASKS}")
    search = registry.get_method(method).search
    if not search:
        raise UserError(f"{method} has no settings to search: {', '.join(searchable())} have")
    chosen = first_seeds(seeds, "validation")
    specs = resolve_grid(protocol, [method], chosen, {"tasks": TASKS, **(overrides or {})}, "validation", vary=search)
    execute_grid(specs, root, progress, engine)
    trials = []
    for candidate in itertools.product(*search.values()):
        settings = dict(zip(search, candidate, strict=True))
        own = [spec for spec in specs if spec.method_settings.model_dump().items() >= settings.items()]
        scores = [average_accuracy(RunFolder(run_path(root, spec)).counts()) for spec in own]
        trials.append(Trial(settings, statistics.mean(scores)))
    return sorted(trials, key=lambda trial: -trial.accuracy)


def add_to(
    path: Path,
    protocol: str,
    method: str,
    trials: list[Trial],
    seeds: int,
    overrides: Mapping[str, Any] | None = None,
) -> None:
    """Write the best trial, and how it was found, into a file of presets."""
    given = "".join(f" --set {key}={value}" for key, value in (overrides or {}).items())
    found = presets.PresetEntry(
        preset="tuned",
        method=method,
        protocol=protocol,
        settings=dict(trials[0].settings),
        source=presets.TuningRecord(
            command=f"protoreplay tune {protocol} --method {method} --seeds {seeds}{given}",
            validation_avg=round(100 * trials[0].accuracy, 2),
            tried={key: list(values) for key, values in registry.get_method(method).search.items()},
        ),
    )
    try:
        known = presets.parse_presets(path.read_text()) if path.exists() else []
    except ValueError:
        raise UserError(f"{path} is not a file of presets: give another one, or one that does not exist yet") from None
    write_whole(path, presets.dump_presets(known, found).encode())


def searchable() -> list[str]:
    """The methods with something to search."""
    return [name for name, recipe in registry.METHODS.items() if recipe.search]
