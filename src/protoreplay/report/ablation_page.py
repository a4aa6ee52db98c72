"""What each ingredient of VPR is worth: a figure, a table of paired differences, and a page of both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from protoreplay.analysis import claims
from protoreplay.analysis.ablations import Ablation, PlannedAblation
from protoreplay.analysis.results import Group, read_result
from protoreplay.analysis.verdicts import any_measured, judge_claims
from protoreplay.core.files import write_whole
from protoreplay.experiments.grid_queue import run_path
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.metrics.intervals import compare_seeds, paired_t_test
from protoreplay.report import figures, layout
from protoreplay.report.claims_table import claims_table
from protoreplay.report.differences import difference_cells, difference_record
from protoreplay.report.formats import ABSENT, Cell, Table, table_as_csv
from protoreplay.report.html_parts import FigureOnPage, Section, figure_on_page, write_sections

ABLATION_CAPTION = (
    "Left: the average over tasks, mean over seeds, with Student's 95 % interval; the dotted line is the full method. "
    "Right: the difference from the full method on common seeds with Student's 95 % interval (dots), and the paper's "
    "number for it on split-cifar10, if it reports one (diamonds, and at the right edge)."
)
PAPERS_MARK: dict[str, Any] = {
    "color": layout.colour(1),
    "marker": "D",
    "markersize": 6,
    "fillstyle": "none",
    "markeredgewidth": 1.4,
    "linestyle": "",
}
SHOWN = {"avg": "average over tasks (%)", "final": "after the last task (%)"}


@dataclass(frozen=True)
class MeasuredAblation:
    """An ablation with its finished runs."""

    ablation: Ablation
    group: Group

    @property
    def label(self) -> str:
        """What is different, or which method it is in full."""
        return self.ablation.title or f"{self.ablation.method} in full"


def measured_ablations(planned: Sequence[PlannedAblation], root: Path) -> dict[str, list[MeasuredAblation]]:
    """By method, its ablations of which runs are finished, the full form first; without it a method is left out."""
    found: dict[str, list[MeasuredAblation]] = {}
    for one in planned:
        results = [result for spec in one.specs if (result := read_result(RunFolder(run_path(root, spec))))]
        if results and (not one.ablation.name or one.ablation.method in found):
            group = Group(one.specs[0].protocol.name, one.specs[0].variant, results)
            found.setdefault(one.ablation.method, []).append(MeasuredAblation(one.ablation, group))
    return found


def ablation_table(measured: Sequence[MeasuredAblation]) -> Table:
    """One line an ablation of one method: its accuracies, and their paired differences to the full method."""
    full = measured[0].group
    body, records = [], []
    for number, one in enumerate(measured):
        line = [one.label, str(len(one.group.results))]
        record: dict[str, Any] = {"method": one.ablation.method, "ablation": one.ablation.name or "full"}
        record |= {"alias": one.ablation.alias, "settings": _settings_text(one.ablation)}
        record |= {"seeds": len(one.group.results)}
        for key in SHOWN:
            mean, difference = one.group.summaries[key].mean, compare_seeds(one.group.values[key], full.values[key])
            line += [f"{mean:.1f}", *(difference_cells(difference) if number else ["", ""])]
            record |= {key: round(mean, 3), **difference_record(key, difference if number else None)}
        paper = _papers_figure(one.ablation)
        body.append([Cell(text, strong=not number) for text in [*line, paper or ABSENT if number else ""]])
        records.append({**record, "paper": paper})
    columns = [[f"{key} %", "difference", "95 % interval"] for key in SHOWN]
    header = ["", "seeds", *columns[0], *columns[1], "paper, avg"]
    note = (
        "Differences from the full method in percentage points, paired on common seeds, with Student's interval. The "
        "paper's numbers are for split-cifar10."
    )
    return Table(header, body, 1, records, note)


def _settings_text(ablation: Ablation) -> str:
    return " ".join(f"{key}={value}" for key, value in ablation.settings.items())


def _papers_figure(ablation: Ablation) -> str:
    claim = _papers_claim(ablation)
    return claim.paper if claim else ""


def _papers_claim(ablation: Ablation) -> claims.Claim | None:
    own = (claim for claim in claims.CLAIMS if claim.change and ablation.method == claims.VPR.method)
    return next((claim for claim in own if claim.change == ablation.settings), None)


def ablation_figure(measured: Sequence[MeasuredAblation], narrow: bool = False) -> Figure:
    """Bars of the average accuracy, and its differences to the full method beside those that the paper's text gives."""
    with mpl.rc_context(layout.STYLE):
        width, row, below, above = (4.2, 0.34, 0.5, 0.3) if narrow else (9.0, 0.24, 0.5, 0.3)
        labels = [one.label.replace(" (", "\n(") if narrow else one.label for one in measured]
        left = 0.25 + 0.066 * max(len(line) for label in labels for line in label.splitlines())
        tall = row * len(measured)
        height = (1 + narrow) * (tall + below + above)
        figure = Figure(figsize=(width, height))
        across = width - left - 0.5 if narrow else (width - left - 1.0) / 2
        for number, draw in enumerate((_average_bars, _difference_points)):
            x = left if narrow else left + number * (across + 0.6)
            y = below + narrow * (1 - number) * (tall + below + above)
            axes = figure.add_axes((x / width, y / height, across / width, tall / height))
            axes.set_yticks(range(len(measured)), labels if narrow or not number else [], fontsize=8.5)
            axes.set_ylim(len(measured) - 0.4, -0.6)
            axes.grid(axis="x", color="#808080", alpha=0.2, linewidth=0.6)
            axes.set_axisbelow(True)
            draw(axes, measured)
        return figure


def _average_bars(axes: Axes, measured: Sequence[MeasuredAblation]) -> None:
    averages = [paired_t_test(list(one.group.values["avg"].values())) for one in measured]
    for at, average in enumerate(averages):
        axes.barh(at, average.difference, 0.7, color=layout.colour(0), alpha=0.45 if at else 0.9)
        if average.low is not None and average.high is not None:
            axes.plot([average.low, average.high], [at, at], color=layout.INK, linewidth=1.2)
        text = f"{average.difference:.1f}"
        axes.text(1.01, at, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    axes.axvline(averages[0].difference, **figures.CHANCE)
    farthest = max(average.high or average.difference for average in averages)
    axes.set_xlim(0, min(100, 5 * math.ceil(1.02 * farthest / 5)))
    axes.set_xlabel(SHOWN["avg"])


def _difference_points(axes: Axes, measured: Sequence[MeasuredAblation]) -> None:
    full, said = measured[0].group.values["avg"], 0
    for at, one in enumerate(measured[1:], start=1):
        difference, claim = compare_seeds(one.group.values["avg"], full), _papers_claim(one.ablation)
        if difference:
            if difference.low is not None and difference.high is not None:
                axes.plot([difference.low, difference.high], [at, at], color=layout.colour(0), linewidth=1.6)
            axes.plot(difference.difference, at, "o", color=layout.colour(0), markersize=4.5)
        if claim and claim.size is not None:
            said += 1
            axes.plot(claim.size, at, **PAPERS_MARK)
            text = f"{claim.size:+.1f}" if claim.size else "0"
            axes.text(
                1.01, at, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=layout.colour(1)
            )
    axes.axvline(0, **figures.CHANCE)
    axes.set_xlabel("difference to the full method (points)")
    handles = [Line2D([], [], color=layout.colour(0), marker="o", markersize=4.5, label="measured, 95 % interval")]
    if said:
        handles.append(Line2D([], [], label="the paper's number", **PAPERS_MARK))
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.15, 1.0), ncols=2, frameon=False, fontsize=8)


def write_ablation_page(found: dict[str, list[MeasuredAblation]], folder: Path) -> list[Path]:
    """Write the page, and for each method its bars as PNG and PDF and its numbers as CSV; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written, sections = [], []
    for method, ablations in found.items():
        made, wide = ablation_table(ablations), ablation_figure(ablations)
        for format in ("png", "pdf"):
            written.append(folder / f"ablations-{method}.{format}")
            figures.save_figure(wide, written[-1])
        written.append(folder / f"ablations-{method}.csv")
        write_whole(written[-1], table_as_csv(made).encode() + b"\n")
        sections.append(Section(method, [_on_page(method, ablations)], [(f"{method} and its ablations", made)]))
    groups = [one.group for ablations in found.values() for one in ablations]
    if any_measured(groups):
        said = claims_table(judge_claims(groups, claims=[claim for claim in claims.CLAIMS if claim.change]))
        caption = "The paper's claims about its ablations on split-cifar10, and our results"
        sections.append(Section("The paper's claims", [], [(caption, said)]))
    intro = (
        "Each line is the full method with one change, on the same seeds. Accuracies are on all classes seen so far."
    )
    written.insert(0, folder / "ablations.html")
    write_sections(written[0], f"Ablations on {groups[0].protocol}", intro, sections)
    return written


def _on_page(method: str, ablations: Sequence[MeasuredAblation]) -> FigureOnPage:
    layouts = {"wide": ablation_figure(ablations), "narrow": ablation_figure(ablations, True)}
    return figure_on_page(layouts, f"ablations-{method}", ABLATION_CAPTION, ablations_in_words(ablations))


def ablations_in_words(ablations: Sequence[MeasuredAblation]) -> str:
    """The figure for those who do not see it."""
    said = (f"{one.label} {one.group.summaries['avg'].mean:.1f} %" for one in ablations)
    return "Bars of average accuracy: " + "; ".join(said)
