"""The commands that show what finished runs say: as a table, as a page."""

from pathlib import Path
from typing import Annotated

import typer

from protoreplay.cli.options import RunsFolder
from protoreplay.cli.printing import print_table
from protoreplay.core.errors import UserError, known_name

results_app = typer.Typer()

Against = Annotated[
    str | None, typer.Option(metavar="METHOD", help="Mark what differs from this one, not from the best average.")
]


@results_app.command("table")
def table_command(
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
    from protoreplay.report.claims_table import claims_table
    from protoreplay.report.formats import FORMATS
    from protoreplay.report.method_tables import differences_table, results_table

    known_name("format", format, FORMATS)
    if compare and claims:
        raise UserError("--compare and --claims are different tables: give one of them")
    groups, unfinished = collect(folder)
    chosen = columns.split(",") if columns else None
    if claims:
        made = claims_table(groups)
    elif compare:
        made = differences_table(groups, compare.split(","), chosen)
    else:
        made = results_table(groups, chosen, spread, against)
    print_table(made, unfinished, format)


@results_app.command("report")
def report_command(
    folder: RunsFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each figure here as PNG, SVG and PDF.")
    ] = None,
    against: Against = None,
) -> None:
    """Write one HTML page: curves, tables, maps, memory, time, the paper's claims, and the settings to repeat it."""
    from protoreplay.analysis.results import collect, groups_labelled
    from protoreplay.report.results_page import write_figures, write_results_page

    groups, unfinished = collect(folder)
    if against:
        groups_labelled(groups, against)
    write_results_page(groups, unfinished, output, against)
    for path in [output, *(write_figures(groups, figures) if figures else [])]:
        print(path)
