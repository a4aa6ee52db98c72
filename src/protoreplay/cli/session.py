"""`bench` as a function, for programs and notebooks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protoreplay.cli.options import method_names, parse_seeds, pick_engine, pick_evaluation
from protoreplay.experiments.grid import RunsFailedError, execute_grid
from protoreplay.experiments.grid_queue import default_runs_folder, run_path
from protoreplay.experiments.run_progress import GridProgress, for_this_terminal
from protoreplay.experiments.spec import OtherSource, resolve_grid
from protoreplay.report.result_set import Results


def bench(
    protocol: str,
    methods: str | Sequence[str] = "all",
    seeds: int | str | Sequence[int] = 3,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    frozen_encoder: str = "",
    evaluation: str = "test",
    device: str = "cpu",
    jobs: int = 1,
    engine: str = "local",
    out: Path | str | None = None,
    other_source: OtherSource = "refuse",
    progress: bool = True,
    **settings: Any,
) -> Results:
    """Run methods over seeds and settings, as `protoreplay bench` does, and return the results of exactly these runs.

    Finished runs are skipped, the same call resumes an interrupted one, and each run uses one thread, as in the
    command. Worker processes also know what was registered in the session.

    Args:
        protocol: a protocol from `protoreplay protocols`, or one of your own.
        methods: names, as a list or separated by commas, or `all`.
        seeds: the number of seeds, or the seeds: `5`, `"100-104"`, `[1, 7]`.
        vary: settings with several values each: every combination is run.
        frozen_encoder: the encoder whose features all methods use, as `--encoder`; without one, methods see images. The
            setting `encoder` is another thing: the network that a method trains.
        evaluation: `test`, or `validation` images held out of the training set.
        device: `cpu`, `cuda`, `mps` or `auto`.
        jobs: worker processes; in a script, more than one needs the usual `if __name__ == "__main__":`.
        engine: `local` or `ray`.
        out: the folder for all runs; by default `runs/PROTOCOL`.
        other_source: what to do with finished runs whose source code has changed: `refuse`, `redo` or `keep`.
        progress: whether to show progress bars, or lines without a terminal or notebook.
        settings: of the protocol or the methods.

    Raises:
        RunsFailedError: if runs failed; all others are finished, and `Results.read` gives them.
    """
    chosen = pick_evaluation(evaluation)
    names = method_names(methods if isinstance(methods, str) else ",".join(methods), bool(frozen_encoder))
    numbers = parse_seeds(str(seeds), chosen) if isinstance(seeds, int | str) else list(seeds)
    specs = resolve_grid(
        protocol, names, numbers, settings, chosen, vary, device, encoder=frozen_encoder, other_source=other_source
    )
    root = Path(out) if out else default_runs_folder(protocol)
    with for_this_terminal() if progress else GridProgress() as board:
        execute_grid(specs, root, board, pick_engine(engine, jobs, device))
    return Results.read(*(run_path(root, spec) for spec in specs))


__all__ = ["RunsFailedError", "bench"]
