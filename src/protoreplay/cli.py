"""The commands. Each checks its input, calls the library and prints; heavy parts are imported when needed."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import TyperException

from protoreplay._version import __version__
from protoreplay.cli_data import data_app
from protoreplay.cli_photos import photos_app
from protoreplay.errors import UserError

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

ProtocolName = Annotated[str, typer.Argument(metavar="PROTOCOL", help="A name of `protoreplay protocols`.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the protocol or the method; may be given often."),
]
EvalOn = Annotated[
    str,
    typer.Option(
        "--eval", metavar="test|validation", help="Test images, or validation images cut from the training set."
    ),
]


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
    out: Annotated[
        Path | None,
        typer.Option(help="The run's folder.  [default: runs/PROTOCOL/METHOD/seed-SEED]", show_default=False),
    ] = None,
) -> None:
    """Teach one method one stream of tasks, testing after each; the same command continues an interrupted run."""
    from protoreplay.evaluation import average, final
    from protoreplay.experiments.grid import run_path
    from protoreplay.experiments.progress import for_this_terminal
    from protoreplay.experiments.run import execute
    from protoreplay.experiments.spec import file_name, resolve

    spec = resolve(protocol, method, seed, _parse(overrides), _evaluation(evaluation))
    path = out or run_path(Path("runs") / file_name(protocol), spec)
    with for_this_terminal() as progress:
        counts = execute(spec, path, progress)
    print(f"{spec.variant} on {protocol}, seed {seed}: avg {average(counts):.1%}, final {final(counts):.1%}  ({path})")


@app.command()
def bench(
    protocol: ProtocolName,
    out: Annotated[Path, typer.Option(help="The folder for all runs.")],
    methods: Annotated[str, typer.Option(help="Names separated by commas, or `all`.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 0; on validation images from 1000.")] = 3,
    overrides: Overrides = None,
    evaluation: EvalOn = "test",
) -> None:
    """Run several methods with several seeds and print the table; finished runs are not done again."""
    from protoreplay.experiments.grid import execute_grid
    from protoreplay.experiments.progress import for_this_terminal
    from protoreplay.experiments.spec import first_seeds, resolve_grid

    chosen = _evaluation(evaluation)
    specs = resolve_grid(protocol, _method_names(methods), first_seeds(seeds, chosen), _parse(overrides), chosen)
    with for_this_terminal() as progress:
        execute_grid(specs, out, progress)
    table(out)


@app.command()
def table(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs.")],
    format: Annotated[str, typer.Option(metavar="text|md|csv|json")] = "text",
) -> None:
    """Print the table of all finished runs in a folder."""
    from protoreplay.report.results import collect
    from protoreplay.report.table import FORMATS, rows
    from protoreplay.settings import unknown

    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    groups, unfinished = collect(folder)
    print(FORMATS[format](rows(groups)))
    if unfinished:
        print(f"{unfinished} unfinished runs are not shown", file=sys.stderr)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one HTML page with the curves, the table and the settings; figures also as PNG beside it."""
    from protoreplay.report.page import write_page
    from protoreplay.report.results import collect

    for path in write_page(*collect(folder), output):
        print(path)


@app.command()
def memory(
    protocol: ProtocolName,
    methods: Annotated[str, typer.Option(help="Names separated by commas, or `all`.")] = "all",
) -> None:
    """Print what each method carries from task to task, counted on real objects, next to the paper's count."""
    from protoreplay import protocols
    from protoreplay.analysis.memory import measure

    rows = [("method", "numbers", "bytes", "by the paper's count", "item by item, in numbers")]
    for measured in measure(protocols.get(protocol), _method_names(methods)):
        items = ", ".join(f"{item.name} {item.numbers:,}" for item in measured.ledger)
        paper = "" if measured.paper is None else f"{measured.paper / 1e5:.1f}e5"
        rows.append((measured.method, f"{measured.numbers:,}", f"{measured.bytes:,}", paper, items))
    _print_columns(rows)


@app.command()
def tune(
    protocol: ProtocolName,
    method: Annotated[str, typer.Option(help="A name of `protoreplay methods`.")],
    seeds: Annotated[int, typer.Option(min=1, help="Number of validation streams, from seed 1000.")] = 3,
    out: Annotated[Path | None, typer.Option(help="Folder of the trials.  [default: runs/tune/PROTOCOL]")] = None,
    store: Annotated[Path | None, typer.Option(help="Add what is found to this JSON file of tuned settings.")] = None,
) -> None:
    """Choose a method's settings on validation images from the training data of the first two tasks."""
    from protoreplay.experiments.progress import for_this_terminal
    from protoreplay.experiments.spec import file_name
    from protoreplay.experiments.tune import add_to, tune

    with for_this_terminal() as progress:
        trials = tune(protocol, method, seeds, out or Path("runs/tune") / file_name(protocol), progress)
    words = [" ".join(f"{key}={value}" for key, value in trial.settings.items()) for trial in trials]
    _print_columns(
        [
            ("validation avg %", "settings"),
            *((f"{100 * t.accuracy:.1f}", w) for t, w in zip(trials, words, strict=True)),
        ]
    )
    if store:
        add_to(store, protocol, method, trials, seeds)


@methods_app.callback()
def _methods(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from protoreplay.methods import REGISTRY

        _print_columns([(name, recipe.summary) for name, recipe in REGISTRY.items()])


@methods_app.command("show")
def show_method(name: Annotated[str, typer.Argument(metavar="METHOD")]) -> None:
    """Print a method's settings with their defaults; a protocol may prescribe others."""
    from protoreplay import methods

    recipe = methods.get(name)
    print(f"{name}: {recipe.summary}")
    _print_settings(recipe.settings({}, {}, name))


@protocols_app.callback()
def _protocols(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from protoreplay.data.catalog import CATALOG
        from protoreplay.protocols import PROTOCOLS

        rows = [("name", "kind", "tasks", "classes", "images per class", "data")]
        for protocol in PROTOCOLS.values():
            file = CATALOG[protocol.data].file
            here = file is None or file.path.exists()
            state = f"{protocol.data}, here" if here or file is None else f"{protocol.data}, missing: {file.remedy}"
            rows.append((protocol.name, protocol.kind, *protocol.outline(), state))
        rows += [("split:FOLDER", "incremental class", "", "", "", "your photos, one sub-folder per class")]
        rows += [("permuted:FOLDER", "incremental domain", "", "", "", "your photos, one sub-folder per class")]
        _print_columns(rows)


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
    from protoreplay import protocols

    protocol = protocols.get(name)
    settings = protocol.settings(_parse(overrides))
    if output:
        from protoreplay.report import figures, streams

        figures.save(streams.draw(protocol.stream(seed, settings), f"{name}, seed {seed}"), output)
    print(f"{name}: {protocol.kind}; {protocol.summary}")
    _print_settings(settings)
    print("methods use", ", ".join(f"{key}={value}" for key, value in protocol.method_settings.items()))


def _print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_settings(settings: "BaseModel") -> None:
    fields = type(settings).model_fields
    _print_columns([(f"  {key}={getattr(settings, key)}", fields[key].description or "") for key in fields])


def _parse(overrides: list[str] | None) -> dict[str, Any]:
    """`["tau=2", ...]` as a mapping."""
    parsed = {}
    for item in overrides or []:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise UserError(f"--set {item}: write KEY=VALUE")
        parsed[key] = value
    return parsed


def _method_names(text: str) -> list[str]:
    """`a,b@tuned` or `all`, where it stands, as names without repetition."""
    from protoreplay.methods import REGISTRY

    names = [name for word in text.split(",") for name in (REGISTRY if word == "all" else [word])]
    return list(dict.fromkeys(names))


def _evaluation(value: str) -> Any:
    from protoreplay.settings import unknown

    if value not in ("test", "validation"):
        raise unknown("--eval", value, ["test", "validation"])
    return value


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


if __name__ == "__main__":
    main()
