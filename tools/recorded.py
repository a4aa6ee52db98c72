"""What is recorded under results/, read back, and the pages with figures that the site makes of it.

`tools/record.py` writes such folders: every count, the settings, the table. Pages and figures follow from these and
are built, not kept.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protoreplay.analysis.ablations import ABLATIONS
from protoreplay.analysis.results import Group, recorded_groups
from protoreplay.report.ablation_page import MeasuredAblation, write_ablation_page
from protoreplay.report.figures import FIGURES, render_figure
from protoreplay.report.formats import table_as_markdown
from protoreplay.report.ladder_page import (
    CAPTION,
    ladder_figure,
    ladder_in_words,
    ladder_table,
    recorded_ladder,
    write_ladder_page,
)
from protoreplay.report.results_page import write_results_page

ABLATED = "ablations"
"""The folder of the runs of `protoreplay ablate`."""
CLIMBED = "ladder-"
"""How the names of folders of the runs of `protoreplay ladder` begin."""
LADDER_DRAWING = "ladder.svg"


def all_recorded(results: Path) -> dict[str, list[Group]]:
    """By folder, what is recorded in it."""
    return {path.parent.name: recorded_groups(path.parent) for path in sorted(results.glob("*/counts.csv"))}


def page_names(folder: Path) -> list[str]:
    """Of the pages that `recorded_pages` makes of a folder: none where no counts are recorded."""
    if not (folder / "counts.csv").exists():
        return []
    climbed = folder.name.startswith(CLIMBED)
    return ["report.html"] + ["ablations.html"] * (folder.name == ABLATED) + ["ladder.html"] * climbed


def recorded_pages(folder: Path) -> dict[str, bytes]:
    """By name, the pages with figures of what is recorded in a folder."""
    names = page_names(folder)
    with tempfile.TemporaryDirectory() as place:
        written = Path(place)
        groups = recorded_groups(folder) if names else []
        if "report.html" in names:
            # The time of each run is not recorded, only their mean: it stands in the table.
            drawings = {name: drawing for name, drawing in FIGURES.items() if name != "time"}
            write_results_page(groups, 0, written / "report.html", drawings=drawings)
        if "ablations.html" in names:
            write_ablation_page(recorded_ablations(groups), written)
        if "ladder.html" in names:
            write_ladder_page(recorded_ladder(groups), written)
        return {name: (written / name).read_bytes() for name in names}


def ladder_drawing(folder: Path) -> bytes:
    """The figure of a recorded ladder, as SVG."""
    return render_figure(ladder_figure(recorded_ladder(recorded_groups(folder))), "svg")


def ladder_markdown(folder: Path, link: str) -> str:
    """What pages of the site say of a recorded ladder: the figure, which `link` leads to, and the table.

    Where nothing is recorded yet, a sentence that says so.
    """
    if not (folder / "counts.csv").exists():
        return f"Nothing is recorded under results/{folder.name} yet."
    found = recorded_ladder(recorded_groups(folder))
    return f"![{ladder_in_words(found)}]({link})\n\n{CAPTION}\n\n{table_as_markdown(ladder_table(found))}"


def recorded_ablations(groups: Sequence[Group]) -> dict[str, list[MeasuredAblation]]:
    """By method, the full form, whose label is the bare name, and its ablations, known by their settings."""
    found: dict[str, list[MeasuredAblation]] = {}
    for ablation in ABLATIONS:
        own = [group for group in groups if group.results[0].config.method.name == ablation.method]
        full = next((group for group in own if group.label == ablation.method), None)
        wanted = {**_settings(full), **ablation.settings} if full else None
        group = next((group for group in own if _settings(group) == wanted), None)
        if group and (group is not full or not ablation.name):
            found.setdefault(ablation.method, []).append(MeasuredAblation(ablation, group))
    return found


def _settings(group: Group) -> dict[str, Any]:
    return group.results[0].config.method.settings
