"""What several commands print."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import typer

from protoreplay.core.columns import align_columns

if TYPE_CHECKING:
    from protoreplay.experiments.grid import RunsFailedError
    from protoreplay.report.formats import Table


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows, aligned."""
    for line in align_columns(rows):
        print(line)


def print_table(table: "Table", unfinished: int, format: str = "text") -> None:
    """Print a table of runs in one of `FORMATS`, and on stderr how many runs are missing in it."""
    from protoreplay.report.formats import FORMATS

    print(FORMATS[format](table))
    if unfinished:
        print(f"not shown: unfinished runs ({unfinished})", file=sys.stderr)


def end_with_failures(error: "RunsFailedError") -> NoReturn:
    """Name the runs that failed, and end."""
    for failure in error.failures:
        print(f"protoreplay: {failure.spec.name} failed: {failure.error}", file=sys.stderr)
    print(f"protoreplay: {error}", file=sys.stderr)
    raise typer.Exit(1)


def print_line(line: str) -> None:
    """Print a line at once; of a file's name, bytes that are no text are escaped."""
    print(line.encode("utf-8", "backslashreplace").decode(), flush=True)
