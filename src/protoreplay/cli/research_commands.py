"""The commands that run methods: one run, a grid of runs, and a search for settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.options import (
    Address,
    CpusPerRun,
    Device,
    EncoderOption,
    EngineName,
    EvalOn,
    GpusPerRun,
    Jobs,
    Keep,
    KeepPrototypes,
    Log,
    MethodNames,
    OneMethod,
    Overrides,
    ProtocolName,
    Redo,
    Seeds,
    Vary,
    parse_pairs,
    parse_varied,
    pick_engine,
    pick_evaluation,
    pick_log,
    pick_other_source,
    with_choice,
)
from protoreplay.cli.printing import end_with_failures, print_columns, print_table
from protoreplay.core.errors import UserError, print_to_stderr

if TYPE_CHECKING:
    from protoreplay.analysis.results import Group

research_app = typer.Typer()


@research_app.command("run")
def run_command(
    protocol: ProtocolName,
    method: OneMethod = "vpr",
    seed: Annotated[int, typer.Option(help="Seed of the image draw and of all other randomness.")] = 0,
    overrides: Overrides = None,
    encoder: EncoderOption = "",
    evaluation: EvalOn = "test",
    device: Device = "cpu",
    log: Log = None,
    keep_prototypes: KeepPrototypes = False,
    redo: Redo = False,
    keep: Keep = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the run.", show_default="runs/PROTOCOL/METHOD/seed-N"),
    ] = None,
) -> None:
    """Run one method on one stream of tasks and test it after each. The same command resumes an interrupted run."""
    from protoreplay.experiments.grid_queue import default_runs_folder, run_path
    from protoreplay.experiments.run import execute
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.experiments.spec import resolve
    from protoreplay.metrics.accuracy import average_accuracy, final_accuracy

    chosen = pick_evaluation(evaluation)
    spec = resolve(protocol, method, seed, parse_pairs(overrides), chosen, device, keep_prototypes, encoder)
    (spec,) = with_choice([spec], redo, keep)
    path = out or run_path(default_runs_folder(protocol), spec)
    with for_this_terminal() as board:
        counts = execute(spec, path, board.run(), pick_log(log))
    reached = f"avg {average_accuracy(counts):.1%}, final {final_accuracy(counts):.1%}"
    print(f"{spec.variant} on {protocol}, seed {seed}: {reached}  ({path})")


@research_app.command("bench")
def bench_command(
    protocol: Annotated[
        str | None, typer.Argument(metavar="PROTOCOL", help="Protocol to run; not needed with --grid.")
    ] = None,
    methods: MethodNames = "all",
    seeds: Seeds = "3",
    overrides: Overrides = None,
    vary: Vary = None,
    encoder: EncoderOption = "",
    evaluation: EvalOn = "test",
    grid: Annotated[
        Path | None,
        typer.Option("--grid", metavar="FILE.toml", help="Read the comparison, its tables and figures from a file."),
    ] = None,
    device: Device = "cpu",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    cpus_per_run: CpusPerRun = 1.0,
    gpus_per_run: GpusPerRun = 0.0,
    log: Log = None,
    keep_prototypes: KeepPrototypes = False,
    redo: Redo = False,
    keep: Keep = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for all runs.", show_default="runs/PROTOCOL")
    ] = None,
) -> None:
    """Run methods over seeds and settings and print the table. Finished runs are skipped, failed ones are retried."""
    from protoreplay.cli.grid_file import GridFile
    from protoreplay.experiments.grid import RunsFailedError, execute_grid
    from protoreplay.experiments.grid_queue import default_runs_folder, run_path
    from protoreplay.experiments.run_progress import for_this_terminal

    if grid:
        if protocol or overrides or vary or encoder or (methods, seeds, evaluation) != ("all", "3", "test"):
            raise UserError(f"--grid {grid} defines the runs: leave out PROTOCOL, --methods, --seeds, --set and so on")
        wanted = GridFile.read(grid)
    elif protocol:
        settings, varied = parse_pairs(overrides), {key: tuple(v) for key, v in parse_varied(vary).items()}
        chosen = {"methods": methods.split(","), "seeds": seeds, "evaluation": pick_evaluation(evaluation)}
        wanted = GridFile(protocol=protocol, settings=settings, vary=varied, encoder=encoder, **chosen)
    else:
        raise UserError("bench needs a PROTOCOL, or --grid FILE.toml")
    specs = wanted.specs(device, keep_prototypes, pick_other_source(redo, keep))
    does = pick_engine(engine, jobs, device, address, cpus_per_run, gpus_per_run)
    root = out or wanted.out or default_runs_folder(wanted.protocol)
    try:
        with for_this_terminal() as board:
            execute_grid(specs, root, board, does, pick_log(log))
    except RunsFailedError as error:
        if len(error.failures) < len(specs):
            _print_results(root)
        end_with_failures(error)
    if not grid:
        _print_results(root)
        return
    for text in wanted.write(*_collected(*(run_path(root, spec) for spec in specs))):
        print(text)


def _collected(*roots: Path) -> "tuple[list[Group], int]":
    from protoreplay.analysis.results import collect

    return collect(*roots)


@research_app.command("new-method")
def new_method_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the method, such as my-method.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write to.")] = Path(),
) -> None:
    """Create a working method of your own to start from: one file and its test."""
    from protoreplay.cli.method_skeleton import write_method_skeleton

    for path in write_method_skeleton(name, out):
        print(path)


def _print_results(root: Path) -> None:
    from protoreplay.report.method_tables import results_table

    groups, unfinished = _collected(root)
    print_table(results_table(groups), unfinished)


@research_app.command("tune")
def tune_command(
    protocol: ProtocolName,
    method: OneMethod,
    seeds: Annotated[int, typer.Option(min=1, help="Number of validation streams, from seed 1000 on.")] = 3,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Number of tasks in each stream.", show_default="all, at most 10")
    ] = None,
    overrides: Overrides = None,
    vary: Vary = None,
    encoder: EncoderOption = "",
    store: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Add the chosen settings to this file.")
    ] = None,
    jobs: Jobs = 1,
    redo: Redo = False,
    keep: Keep = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the trials.", show_default="runs/tune/PROTOCOL")
    ] = None,
) -> None:
    """Choose a method's settings, augmentation included, on validation images held out of the training set."""
    from protoreplay.experiments.grid import RunsFailedError
    from protoreplay.experiments.grid_queue import default_runs_folder
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.experiments.tune import TuningPlan, add_to, tune

    plan = TuningPlan(protocol, method, seeds, tasks, parse_pairs(overrides), parse_varied(vary), encoder)
    try:
        with for_this_terminal() as board:
            root, choice = out or default_runs_folder(protocol, "tune"), pick_other_source(redo, keep)
            found = tune(plan, root, board, pick_engine("local", jobs), choice)
    except RunsFailedError as error:
        end_with_failures(error)
    rows = [("validation avg %", "settings")]
    for trial in found.trials:
        words = " ".join(f"{key}={value}" for key, value in trial.settings.items())
        rows.append(
            ("failed", f"{words}  ({trial.error})")
            if trial.accuracy is None
            else (f"{100 * trial.accuracy:.1f}", words)
        )
    print_columns(rows)
    for sentence in found.edges():
        print_to_stderr(f"protoreplay: {sentence}")
    if store:
        add_to(store, found)
        print_to_stderr(f"protoreplay: settings stored; use them with --methods {method}@{store}")
