"""The commands that show the results of finished runs: as a table, as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.options import RunsFolders, parse_width
from protoreplay.cli.printing import print_table
from protoreplay.core.errors import UserError, known_name

if TYPE_CHECKING:
    from protoreplay.analysis.motion import MotionRecord
    from protoreplay.analysis.results import Group

results_app = typer.Typer()

Against = Annotated[
    str | None,
    typer.Option(metavar="METHOD", help="Mark methods that differ from this one.", show_default="the best average"),
]


def _read_folders(folders: list[Path]) -> "tuple[list[Group], int, MotionRecord | None]":
    """The runs in some folders, the number of unfinished ones, and the motion recorded in one of them by `analyze`."""
    from protoreplay.analysis.motion import MOTION_FILE, read_motion
    from protoreplay.analysis.results import collect

    runs = [folder for folder in folders if not (folder / MOTION_FILE).exists()]
    return *collect(*(runs or folders)), read_motion(folders)


@results_app.command("table")
def table_command(
    folders: RunsFolders,
    format: Annotated[str, typer.Option(metavar="text|md|csv|json|latex", help="Output format.")] = "text",
    columns: Annotated[
        str | None,
        typer.Option(
            "--metrics", "--columns", metavar="A,B", help="Columns to show, such as base,novel,harmonic,top5."
        ),
    ] = None,
    spread: Annotated[
        str,
        typer.Option(
            metavar="std|sem|ci", help="Spread after each mean: standard deviation, standard error or interval."
        ),
    ] = "std",
    against: Against = None,
    compare: Annotated[
        str | None, typer.Option(metavar="A,B", help="Show paired differences between these methods instead.")
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Show the accuracy on each class after the last task instead.")
    ] = False,
    claims: Annotated[
        bool, typer.Option("--claims", help="Show the paper's claims and whether the runs support them instead.")
    ] = False,
) -> None:
    """Print the table of all finished runs in one or more folders."""
    from protoreplay.analysis.verdicts import judge_claims
    from protoreplay.report.claims_table import claims_summary, claims_table
    from protoreplay.report.formats import FORMATS
    from protoreplay.report.method_tables import classes_table, differences_table, results_table

    known_name("format", format, FORMATS)
    if sum((bool(compare), claims, per_class)) > 1:
        raise UserError("--compare, --per-class and --claims exclude each other: give one of them")
    groups, unfinished, motion = _read_folders(folders)
    chosen = columns.split(",") if columns else None
    if claims:
        judged = judge_claims(groups, motion)
        made = claims_table(judged)
        if format in ("text", "md"):
            print(claims_summary(judged), end="\n\n")
    elif per_class:
        made = classes_table(groups)
    elif compare:
        made = differences_table(groups, compare.split(","), chosen)
    else:
        made = results_table(groups, chosen, spread, against)
    print_table(made, unfinished, format)


@results_app.command("report")
def report_command(
    folders: RunsFolders,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.html", help="Page to write.")] = Path(
        "report.html"
    ),
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each figure to this folder as PNG, SVG and PDF.")
    ] = None,
    width: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="Width of the figures, such as 3.3in or 84mm.")
    ] = None,
    against: Against = None,
) -> None:
    """Write one HTML page with curves, tables, maps, memory, time, the paper's claims and the settings."""
    from protoreplay.analysis.results import groups_labelled
    from protoreplay.report.results_page import write_figures, write_results_page

    if width and not figures:
        raise UserError(f"--width {width} needs --figures DIR")
    inches = parse_width(width) if width else None
    groups, unfinished, motion = _read_folders(folders)
    if against:
        groups_labelled(groups, against)
    write_results_page(groups, unfinished, output, against, motion=motion)
    for path in [output, *(write_figures(groups, figures, inches) if figures else [])]:
        print(path)
