"""The commands that show what finished runs say: as a table, as a page."""

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
    str | None, typer.Option(metavar="METHOD", help="Mark what differs from this one, not from the best average.")
]


def _read_folders(folders: list[Path]) -> "tuple[list[Group], int, MotionRecord | None]":
    """The runs in some folders, how many are unfinished, and what `analyze` wrote of motion into one of them."""
    from protoreplay.analysis.motion import MOTION_FILE, read_motion
    from protoreplay.analysis.results import collect

    runs = [folder for folder in folders if not (folder / MOTION_FILE).exists()]
    return *collect(*(runs or folders)), read_motion(folders)


@results_app.command("table")
def table_command(
    folders: RunsFolders,
    format: Annotated[str, typer.Option(metavar="text|md|csv|json|latex")] = "text",
    columns: Annotated[
        str | None,
        typer.Option("--metrics", "--columns", metavar="A,B", help="What to show, such as base,novel,harmonic,top5."),
    ] = None,
    spread: Annotated[
        str, typer.Option(metavar="std|sem|ci", help="Standard deviation, standard error or interval behind a mean.")
    ] = "std",
    against: Against = None,
    compare: Annotated[
        str | None, typer.Option(metavar="A,B", help="Instead: paired differences between these methods.")
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Instead: the accuracy on each class after the last task.")
    ] = False,
    claims: Annotated[
        bool, typer.Option("--claims", help="Instead: the paper's claims and what the runs say.")
    ] = False,
) -> None:
    """Print the table of all finished runs in one or more folders."""
    from protoreplay.analysis.verdicts import judge_claims
    from protoreplay.report.claims_table import claims_summary, claims_table
    from protoreplay.report.formats import FORMATS
    from protoreplay.report.method_tables import classes_table, differences_table, results_table

    known_name("format", format, FORMATS)
    if sum((bool(compare), claims, per_class)) > 1:
        raise UserError("--compare, --per-class and --claims are different tables: give one of them")
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
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each figure here as PNG, SVG and PDF.")
    ] = None,
    width: Annotated[
        str | None, typer.Option(metavar="3.3in|84mm", help="Of the figures, such as that of a paper's column.")
    ] = None,
    against: Against = None,
) -> None:
    """Write one HTML page: curves, tables, maps, memory, time, the paper's claims, and the settings to repeat it."""
    from protoreplay.analysis.results import groups_labelled
    from protoreplay.report.results_page import write_figures, write_results_page

    if width and not figures:
        raise UserError(f"--width {width}: it is of the figures of --figures DIR")
    inches = parse_width(width) if width else None
    groups, unfinished, motion = _read_folders(folders)
    if against:
        groups_labelled(groups, against)
    write_results_page(groups, unfinished, output, against, motion=motion)
    for path in [output, *(write_figures(groups, figures, inches) if figures else [])]:
        print(path)
