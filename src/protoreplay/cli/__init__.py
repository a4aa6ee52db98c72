"""The commands. Each checks its input, calls the library and prints; heavy parts are imported when needed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

from protoreplay._version import __version__
from protoreplay.cli.analysis_commands import analysis_app
from protoreplay.cli.data_commands import data_app
from protoreplay.cli.options import (
    Address,
    CpusPerRun,
    Device,
    EngineName,
    EvalOn,
    GpusPerRun,
    Jobs,
    KeepPrototypes,
    Log,
    Overrides,
    ProtocolName,
    RunsFolder,
    fail,
    method_names,
    parse,
    pick_engine,
    pick_evaluation,
    pick_log,
    print_columns,
    split_values,
)
from protoreplay.cli.photo_commands import photos_app
from protoreplay.cli.serve_commands import serve_app
from protoreplay.core.errors import UserError

if TYPE_CHECKING:
    from pydantic import BaseModel


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Few-shot continual learning: new classes from a handful of images, task after task, without forgetting.",
)
methods_app = typer.Typer(invoke_without_command=True, help="List the methods, or show the settings of one.")
protocols_app = typer.Typer(invoke_without_command=True, help="List the protocols, or show the settings of one.")
app.add_typer(methods_app, name="methods")
app.add_typer(protocols_app, name="protocols")
app.add_typer(data_app, name="data")
app.add_typer(photos_app)
app.add_typer(serve_app)
app.add_typer(analysis_app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"protoreplay {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


@app.command()
def run(
    protocol: ProtocolName,
    method: Annotated[str, typer.Option(help="A name of `protoreplay methods`.")] = "vpr",
    seed: Annotated[int, typer.Option(help="Fixes the draw of images and all that is random.")] = 0,
    overrides: Overrides = None,
    evaluation: EvalOn = "test",
    device: Device = "cpu",
    log: Log = None,
    keep_prototypes: KeepPrototypes = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The run's folder.  [default: runs/PROTOCOL/METHOD/seed-SEED]", show_default=False),
    ] = None,
) -> None:
    """Teach one method one stream of tasks, testing after each; the same command continues an interrupted run."""
    from protoreplay.experiments.grid_queue import run_path
    from protoreplay.experiments.run import execute
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.experiments.spec import file_name, resolve
    from protoreplay.metrics.accuracy import average, final

    spec = resolve(protocol, method, seed, parse(overrides), pick_evaluation(evaluation), device, keep_prototypes)
    path = out or run_path(Path("runs") / file_name(protocol), spec)
    with for_this_terminal() as board:
        counts = execute(spec, path, board.run(), pick_log(log))
    print(f"{spec.variant} on {protocol}, seed {seed}: avg {average(counts):.1%}, final {final(counts):.1%}  ({path})")


@app.command()
def bench(
    protocol: ProtocolName,
    out: Annotated[Path, typer.Option(help="The folder for all runs.")],
    methods: Annotated[str, typer.Option(help="Names separated by commas, or `all`.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 0; on validation images from 1000.")] = 3,
    overrides: Overrides = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="A setting with each of several values; may be given often."),
    ] = None,
    evaluation: EvalOn = "test",
    jobs: Jobs = 1,
    engine: EngineName = "local",
    address: Address = None,
    cpus_per_run: CpusPerRun = 1.0,
    gpus_per_run: GpusPerRun = 0.0,
    device: Device = "cpu",
    log: Log = None,
    keep_prototypes: KeepPrototypes = False,
) -> None:
    """Run methods with seeds and settings and print the table; finished runs are not done again, failed ones are."""
    from protoreplay.experiments.grid import RunsFailedError, execute_grid
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.experiments.spec import first_seeds, resolve_grid

    chosen = pick_evaluation(evaluation)
    varied = {key: split_values(key, value) for key, value in parse(vary, "--vary", "KEY=A,B").items()}
    names, numbers = method_names(methods), first_seeds(seeds, chosen)
    specs = resolve_grid(protocol, names, numbers, parse(overrides), chosen, varied, device, keep_prototypes)
    does = pick_engine(engine, jobs, device, address, cpus_per_run, gpus_per_run)
    try:
        with for_this_terminal() as board:
            execute_grid(specs, out, board, does, pick_log(log))
    except RunsFailedError as error:
        if len(error.failures) < len(specs):
            table(out)
        fail(error)
    table(out)


Against = Annotated[
    str | None, typer.Option(metavar="METHOD", help="Mark what differs from this one, not from the best average.")
]


@app.command()
def table(
    folder: RunsFolder,
    format: Annotated[str, typer.Option(metavar="text|md|csv|json|latex")] = "text",
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="What to show, such as avg,final,backward_transfer.")
    ] = None,
    spread: Annotated[
        str, typer.Option(metavar="std|sem|ci", help="Standard deviation, standard error or interval behind a mean.")
    ] = "std",
    against: Against = None,
    compare: Annotated[
        str | None, typer.Option(metavar="A,B", help="Instead: paired differences between these methods.")
    ] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="Instead: the paper's claims and what the runs say.")
    ] = False,
) -> None:
    """Print the table of all finished runs in a folder."""
    from protoreplay.analysis.results import collect
    from protoreplay.core.errors import unknown_name
    from protoreplay.report.claims_table import claims_table
    from protoreplay.report.formats import FORMATS
    from protoreplay.report.table import differences, results

    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if compare and claims:
        raise UserError("--compare and --claims are different tables: give one of them")
    groups, unfinished = collect(folder)
    chosen = columns.split(",") if columns else None
    if claims:
        made = claims_table(groups)
    elif compare:
        made = differences(groups, compare.split(","), chosen)
    else:
        made = results(groups, chosen, spread, against)
    print(FORMATS[format](made))
    if unfinished:
        print(f"{unfinished} unfinished runs are not shown", file=sys.stderr)


@app.command()
def report(
    folder: RunsFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each figure here as PNG, SVG and PDF.")
    ] = None,
    against: Against = None,
) -> None:
    """Write one HTML page: curves, tables, maps, memory, time, the paper's claims, and the settings to repeat it."""
    from protoreplay.analysis.results import collect, find
    from protoreplay.report.page import write_figures, write_page

    groups, unfinished = collect(folder)
    if against:
        find(groups, against)
    write_page(groups, unfinished, output, against)
    for path in [output, *(write_figures(groups, figures) if figures else [])]:
        print(path)


@app.command()
def tune(
    protocol: ProtocolName,
    method: Annotated[str, typer.Option(help="A name of `protoreplay methods`.")],
    seeds: Annotated[int, typer.Option(min=1, help="Number of validation streams, from seed 1000.")] = 3,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the trials.  [default: runs/tune/PROTOCOL]")] = None,
    store: Annotated[Path | None, typer.Option(help="Add what is found to this JSON file of tuned settings.")] = None,
    jobs: Jobs = 1,
) -> None:
    """Choose a method's settings on validation images from the training data of the first two tasks."""
    from protoreplay.experiments.grid import RunsFailedError
    from protoreplay.experiments.run_progress import for_this_terminal
    from protoreplay.experiments.spec import file_name
    from protoreplay.experiments.tune import add_to, tune

    root = out or Path("runs/tune") / file_name(protocol)
    settings = parse(overrides)
    try:
        with for_this_terminal() as board:
            trials = tune(protocol, method, seeds, root, settings, board, pick_engine("local", jobs))
    except RunsFailedError as error:
        fail(error)
    words = [" ".join(f"{key}={value}" for key, value in trial.settings.items()) for trial in trials]
    print_columns(
        [
            ("validation avg %", "settings"),
            *((f"{100 * t.accuracy:.1f}", w) for t, w in zip(trials, words, strict=True)),
        ]
    )
    if store:
        add_to(store, protocol, method, trials, seeds, settings)


@methods_app.callback()
def _methods(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from protoreplay.methods.registry import METHODS

        print_columns([(name, recipe.summary) for name, recipe in METHODS.items()])


@methods_app.command("show")
def show_method(name: Annotated[str, typer.Argument(metavar="METHOD")]) -> None:
    """Print a method's settings with their defaults; a protocol may prescribe others."""
    from protoreplay.methods import registry

    recipe = registry.get_method(name)
    print(f"{name}: {recipe.summary}")
    _print_settings(recipe.settings({}, {}, name))


@protocols_app.callback()
def _protocols(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from protoreplay.data.catalog import dataset_entry
        from protoreplay.streams.protocols import PROTOCOLS

        rows = [("name", "kind", "tasks", "classes", "images per class", "data")]
        for protocol in PROTOCOLS.values():
            file = dataset_entry(protocol.data).file
            here = file is None or file.path.exists()
            state = f"{protocol.data}, here" if here or file is None else f"{protocol.data}, missing: {file.remedy}"
            rows.append((protocol.name, protocol.kind, *protocol.outline(), state))
        rows += [("split:FOLDER", "incremental class", "", "", "", "your photos, one sub-folder per class")]
        rows += [("permuted:FOLDER", "incremental domain", "", "", "", "your photos, one sub-folder per class")]
        print_columns(rows)


@protocols_app.command("show")
def show_protocol(
    name: ProtocolName,
    seed: Annotated[int, typer.Option(help="Of the draw in the picture.")] = 0,
    overrides: Overrides = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw the task stream into this file (.png, .pdf, .svg).")
    ] = None,
) -> None:
    """Print a protocol's settings and what it prescribes to methods; with -o, draw its tasks."""
    from protoreplay.streams import protocols

    protocol = protocols.get_protocol(name)
    settings = protocol.settings(parse(overrides))
    if output:
        from protoreplay.report import figures, stream_figure

        figures.save(stream_figure.draw(protocol.stream(seed, settings), f"{name}, seed {seed}"), output)
    print(f"{name}: {protocol.kind}; {protocol.summary}")
    _print_settings(settings)
    print("methods use", ", ".join(f"{key}={value}" for key, value in protocol.method_settings.items()))


def _print_settings(settings: "BaseModel") -> None:
    fields = type(settings).model_fields
    words = {key: " ".join((field.description or "").split()) for key, field in fields.items()}
    print_columns([(f"  {key}={getattr(settings, key)}", words[key]) for key in fields])


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """A user's mistake ends in one line on stderr and exit code 2; Ctrl-C in 130; a failure of ours in a traceback."""
    try:
        yield
    except UserError as error:
        message = str(error)
    except TyperException as error:
        message = error.format_message()
    except OSError as error:
        message = f"{error.filename or 'files'}: {error.strerror or error}"
    else:
        return
    print(f"protoreplay: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """The console script."""
    with _one_line_errors():
        code = app(prog_name="protoreplay", standalone_mode=False)
    if code == 130:
        print("protoreplay: interrupted; the same command continues", file=sys.stderr)
    sys.exit(code)
