"""The commands that list methods and protocols."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.options import Overrides, ProtocolName, parse_pairs
from protoreplay.cli.printing import print_columns

if TYPE_CHECKING:
    from pydantic import BaseModel

lists_app = typer.Typer()
methods_app = typer.Typer(invoke_without_command=True)
protocols_app = typer.Typer(invoke_without_command=True)
lists_app.add_typer(methods_app, name="methods")
lists_app.add_typer(protocols_app, name="protocols")


@methods_app.callback()
def methods_command(context: typer.Context) -> None:
    """List the methods; `methods show METHOD` prints the settings of one."""
    if context.invoked_subcommand is None:
        from protoreplay.methods.registry import METHODS

        print_columns([(name, entry.summary) for name, entry in METHODS.items()])


@methods_app.command("show")
def show_method_command(name: Annotated[str, typer.Argument(metavar="METHOD", help="Name of the method.")]) -> None:
    """Print a method's settings and their defaults. A protocol may prescribe other values."""
    from protoreplay.methods.registry import get_method

    entry = get_method(name)
    print(f"{name}: {entry.summary}")
    _print_settings(entry.settings({}, {}, name))
    if stand_in := entry.method.on_features:
        print("with --encoder:")
        _print_settings(stand_in.Config())


@protocols_app.callback()
def protocols_command(context: typer.Context) -> None:
    """List the protocols; `protocols show PROTOCOL` prints the settings of one."""
    if context.invoked_subcommand is None:
        from protoreplay.data.catalog import dataset_entry
        from protoreplay.streams.protocols import PROTOCOLS

        rows = [("name", "kind", "tasks", "classes", "images per class", "data")]
        for protocol in PROTOCOLS.values():
            entry = dataset_entry(protocol.data)
            state = f"{protocol.data}, here"
            if entry.file is not None and not entry.is_here:
                state = f"{protocol.data}, not here: {entry.file.remedy}"
            rows.append((protocol.name, protocol.kind, *protocol.outline(), state))
        rows += [("split:FOLDER", "incremental class", "", "", "", "your photos, one sub-folder per class")]
        rows += [("permuted:FOLDER", "incremental domain", "", "", "", "your photos, one sub-folder per class")]
        print_columns(rows)


@protocols_app.command("show")
def show_protocol_command(
    name: ProtocolName,
    seed: Annotated[int, typer.Option(help="Seed of the stream to draw.")] = 0,
    overrides: Overrides = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also draw the task stream (.png, .pdf or .svg)."),
    ] = None,
) -> None:
    """Print a protocol's settings and those that it prescribes for methods."""
    from protoreplay.streams.protocols import get_protocol

    protocol = get_protocol(name)
    settings = protocol.settings(parse_pairs(overrides))
    if output:
        from protoreplay.report.figures import save_figure
        from protoreplay.report.stream_figure import stream_figure

        save_figure(stream_figure(protocol.stream(seed, settings), f"{name}, seed {seed}"), output)
    print(f"{name}: {protocol.kind}; {protocol.summary}")
    _print_settings(settings)
    if protocol.dataset.is_here and (note := protocol.shortfall(settings)):
        print(f"note: {note}")
    print("methods use", ", ".join(f"{key}={value}" for key, value in protocol.method_settings.items()))


def _print_settings(settings: "BaseModel") -> None:
    fields = type(settings).model_fields
    words = {key: " ".join((field.description or "").split()) for key, field in fields.items()}
    print_columns([(f"  {key}={getattr(settings, key)}", words[key]) for key in fields])
