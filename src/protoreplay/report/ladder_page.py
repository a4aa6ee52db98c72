"""The ladder from the paper's form to the closed form: a table, a figure with paired differences, a page of both."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from protoreplay.analysis.ladder import LADDER, PlannedRung, Rung, rung_of
from protoreplay.analysis.results import Group, read_result
from protoreplay.core.files import write_whole
from protoreplay.experiments.grid_queue import run_path
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.metrics.intervals import PairedComparison, compare_seeds
from protoreplay.report import figures, layout
from protoreplay.report.differences import difference_cells, difference_record
from protoreplay.report.formats import Cell, Table, table_as_csv
from protoreplay.report.html_parts import Section, figure_on_page, write_sections

LADDER_COLUMNS = {"avg": "average over tasks (%)", "final": "after the last task (%)"}
CAPTION = (
    "Every rung is the one above it with one change, on the same seeds. Bars are means over seeds, and strokes are "
    "Student's 95 % intervals. The labels give the mean and the difference from the rung above, with Student's "
    "95 % interval of the paired differences, bold where that does not contain 0. Grey is vpr-paper, blue vpr-linear, "
    "green vpr."
)


@dataclass(frozen=True)
class MeasuredRung:
    """A rung with its finished runs; `number` counts from 1, at the paper's form."""

    number: int
    rung: Rung
    group: Group

    def difference(self, before: "MeasuredRung | None", key: str) -> PairedComparison | None:
        """By how much a metric rose from the rung before, on common seeds."""
        return compare_seeds(self.group.values[key], before.group.values[key]) if before else None


def measured_ladder(planned: Sequence[PlannedRung], root: Path) -> list[MeasuredRung]:
    """The rungs of which runs are finished, from the paper's form on."""
    found = []
    for one in planned:
        results = [result for spec in one.specs if (result := read_result(RunFolder(run_path(root, spec))))]
        if results:
            found.append((one.rung, Group(one.specs[0].protocol.name, one.specs[0].variant, results)))
    return [MeasuredRung(number, *pair) for number, pair in enumerate(found, start=1)]


def recorded_ladder(groups: Sequence[Group]) -> list[MeasuredRung]:
    """The rungs that groups of runs belong to, from the paper's form on; other groups are passed over."""
    by_rung = {rung.name: group for group in groups if (rung := rung_of(group))}
    found = [(rung, by_rung[rung.name]) for rung in LADDER if rung.name in by_rung]
    return [MeasuredRung(number, *pair) for number, pair in enumerate(found, start=1)]


def ladder_table(measured: Sequence[MeasuredRung]) -> Table:
    """One line a rung: its accuracies, and their paired differences to the rung above."""
    body, records, before = [], [], None
    for one in measured:
        seeds = len(one.group.results)
        line = [f"{one.number}. {one.rung.name}", str(seeds)]
        record: dict[str, Any] = {"rung": one.number, "name": one.rung.name, "method": one.rung.method}
        record |= {"command": one.rung.command(one.group.protocol), "seeds": seeds}
        for key in LADDER_COLUMNS:
            mean, difference = one.group.summaries[key].mean, one.difference(before, key)
            line += [f"{mean:.1f}", *(difference_cells(difference) if before else ["", ""])]
            record |= {key: round(mean, 3), **difference_record(key, difference)}
        kept, seconds = (one.group.summaries[key].mean for key in ("kept_numbers", "seconds"))
        records.append({**record, "kept_numbers": round(kept), "seconds": round(seconds, 1)})
        body.append([Cell(text) for text in [*line, f"{kept:,.0f}"]])
        before = one
    columns = [cell for key in LADDER_COLUMNS for cell in (f"{key} %", "difference", "95 % interval")]
    note = "Differences from the line above in percentage points, paired on common seeds, with Student's interval."
    return Table(["", "seeds", *columns, "kept numbers"], body, 1, records, note)


def ladder_figure(measured: Sequence[MeasuredRung], narrow: bool = False) -> Figure:
    """Bars of average and final accuracy, rung below rung, with the difference to the one above beside each."""
    with mpl.rc_context(layout.STYLE):
        letters = 22 if narrow else 26
        labels = [textwrap.fill(f"{one.number}. {one.rung.name}", letters) for one in measured]
        width, row, left, text = (4.2, 0.36, 1.5, 1.25) if narrow else (9.0, 0.36, 1.85, 1.3)
        tall, below, above = row * len(measured), 0.5, 0.12
        height = 2 * (tall + below + above) if narrow else tall + below + above
        across = width - left - text if narrow else (width - left) / 2 - text
        figure = Figure(figsize=(width, height))
        for number, key in enumerate(LADDER_COLUMNS):
            x = left if narrow else left + number * (across + text)
            y = (1 - number) * (tall + below + above) + below if narrow else below
            axes = figure.add_axes((x / width, y / height, across / width, tall / height))
            axes.set_yticks(range(len(measured)), labels if narrow or not number else [], fontsize=8)
            _rung_bars(axes, measured, key)
        return figure


def _rung_bars(axes: Axes, measured: Sequence[MeasuredRung], key: str) -> None:
    """The bars of one metric, and at their right mean and difference."""
    summaries = [one.group.summaries[key] for one in measured]
    beside = axes.get_yaxis_transform()
    before = None
    for at, (one, summary) in enumerate(zip(measured, summaries, strict=True)):
        axes.barh(at, summary.mean, 0.62, color=_colour_of(one.rung), alpha=0.75)
        if summary.low is not None and summary.high is not None:
            axes.plot([summary.low, summary.high], [at, at], color=layout.INK, linewidth=1.2)
        axes.text(1.04, at, f"{summary.mean:.1f}", transform=beside, va="center", fontsize=8.5)
        difference = one.difference(before, key)
        if difference is not None:
            sure = difference.low is not None and difference.high is not None and difference.low * difference.high > 0
            said, interval = difference_cells(difference)
            weight = "bold" if sure else "normal"
            shift = 1.04 + 0.33 / _axes_width(axes)
            axes.text(shift, at, f"{said}\n{interval}", transform=beside, va="center", fontsize=7, fontweight=weight)
        before = one
    axes.set_ylim(len(measured) - 0.5, -0.5)
    farthest = max(summary.high or summary.mean for summary in summaries)
    axes.set_xlim(0, min(100, 10 * math.ceil(1.02 * farthest / 10)))
    axes.grid(axis="x", color="#808080", alpha=0.2, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(LADDER_COLUMNS[key])


def _axes_width(axes: Axes) -> float:
    """In inches."""
    figure = axes.get_figure(root=True)
    return axes.get_position().width * (figure.get_size_inches()[0] if figure else 1.0)


def _colour_of(rung: Rung) -> str:
    """One colour for each method, so that it is seen where the paper's own code ends and where training ends."""
    methods = list(dict.fromkeys(one.method for one in LADDER))
    return layout.colour((6, 0, 2)[methods.index(rung.method)])


def write_ladder_page(measured: Sequence[MeasuredRung], folder: Path) -> list[Path]:
    """Write the page, the figure as PNG and PDF and the numbers as CSV; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    made, wide = ladder_table(measured), ladder_figure(measured)
    written = [folder / f"ladder.{ending}" for ending in ("html", "png", "pdf", "csv")]
    for path in written[1:3]:
        figures.save_figure(wide, path)
    write_whole(written[3], table_as_csv(made).encode() + b"\n")
    layouts = {"wide": wide, "narrow": ladder_figure(measured, True)}
    drawn = figure_on_page(layouts, "ladder", CAPTION, ladder_in_words(measured))
    commands = [Cell(one.rung.command(one.group.protocol)) for one in measured]
    names = [Cell(f"{one.number}. {one.rung.name}") for one in measured]
    ways = Table(["", "command"], [list(pair) for pair in zip(names, commands, strict=True)], 2)
    sections = [
        Section("The rungs", [drawn], [("Accuracies and paired differences", made)]),
        Section("Each rung alone", [], [("The command of each rung", ways)]),
    ]
    intro = "From the form of VPR in the text of its paper to its closed form on a frozen body, one change at a time."
    write_sections(written[0], f"The ladder on {measured[0].group.protocol}", intro, sections)
    return written


def ladder_in_words(measured: Sequence[MeasuredRung]) -> str:
    """The figure for those who do not see it."""
    said = (f"{one.number}. {one.rung.name} {one.group.summaries['avg'].mean:.1f} %" for one in measured)
    return "Bars of average accuracy: " + "; ".join(said)
