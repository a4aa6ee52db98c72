"""The commands, one module per door. Each checks its input, calls the library and prints.

What is heavy is imported by the command that needs it, so that `--help` comes at once.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from typer.exceptions import TyperException

from protoreplay._version import __version__
from protoreplay.cli.analysis_commands import analysis_app
from protoreplay.cli.data_commands import data_app
from protoreplay.cli.interruption import interrupted_line
from protoreplay.cli.list_commands import lists_app
from protoreplay.cli.model_commands import models_app
from protoreplay.cli.photo_commands import photos_app
from protoreplay.cli.photo_tools_commands import tools_app
from protoreplay.cli.plain_help import PlainCommand, PlainGroup
from protoreplay.cli.research_commands import research_app
from protoreplay.cli.result_commands import results_app
from protoreplay.cli.serve_commands import serve_app
from protoreplay.cli.watch_command import watch_app
from protoreplay.core.errors import UserError, print_to_stderr
from protoreplay.core.extras import research_remedy

DOORS = {
    "Research": (research_app, results_app, analysis_app, lists_app),
    "Photos": (photos_app, models_app, tools_app, watch_app, serve_app),
    "Data": (data_app,),
}
"""The commands as `protoreplay --help` groups them."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"protoreplay {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def _all_commands() -> typer.Typer:
    everything = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        callback=_root,
        help="Few-shot continual learning: new classes from a handful of images, task after task, without forgetting.",
    )
    for door, parts in DOORS.items():
        for part in parts:
            # typer hands a panel on to a group with a name, but not to the commands of one without.
            for command in part.registered_commands:
                command.rich_help_panel = door
            for group in part.registered_groups:
                group.rich_help_panel = door
            _show_no_types(part)
            everything.add_typer(part)
    return everything


def _show_no_types(part: typer.Typer) -> None:
    for command in part.registered_commands:
        command.cls = PlainCommand
    for group in part.registered_groups:
        group.cls = PlainGroup
        if group.typer_instance:
            _show_no_types(group.typer_instance)


app = _all_commands()


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """A user's mistake ends in one line on stderr and exit code 2; Ctrl-C in 130; a failure of ours in a traceback."""
    try:
        yield
    except UserError as error:
        message = str(error)
    except TyperException as error:
        message = error.format_message()
    except ModuleNotFoundError as error:
        if (remedy := research_remedy(error)) is None:
            raise
        message = f"this command {remedy}"
    except OSError as error:
        message = f"{error.filename or 'files'}: {error.strerror or error}"
    else:
        return
    print_to_stderr(f"protoreplay: {' '.join(message.split())}")
    sys.exit(2)


def main() -> None:
    """The console script."""
    with _one_line_errors():
        code = app(prog_name="protoreplay", standalone_mode=False)
    if code == 130:
        print(interrupted_line(sys.argv[1:]), file=sys.stderr)
    sys.exit(code)
