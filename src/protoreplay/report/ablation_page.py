"""What each ingredient of VPR is worth: bars with error bars, a table of paired differences, and a page of both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from protoreplay.analysis import claims
from protoreplay.analysis.ablations import Ablation, PlannedAblation
from protoreplay.analysis.results import Group, read_result
from protoreplay.analysis.verdicts import any_measured, judge_claims
from protoreplay.core.files import write_whole
from protoreplay.experiments.grid_queue import run_path
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.metrics.intervals import compare_seeds
from protoreplay.report import figures, layout
from protoreplay.report.claims_table import claims_table
from protoreplay.report.differences import difference_cells, difference_record
from protoreplay.report.formats import ABSENT, Cell, Table, table_as_csv
from protoreplay.report.html_parts import FigureOnPage, Section, figure_on_page, write_sections

SHOWN = {"avg": "average over tasks (%)", "final": "after the last task (%)"}


@dataclass(frozen=True)
class MeasuredAblation:
    """An ablation with its finished runs."""

    ablation: Ablation
    group: Group

    @property
    def label(self) -> str:
        """What is different, or which method it is in full."""
        return self.ablation.name or f"{self.ablation.method} in full"


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
        record |= {"settings": _settings_text(one.ablation), "seeds": len(one.group.results)}
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
        "Differences to the full method in points of percent, paired on common seeds, with Student's interval. The "
        "paper's figures are of split-cifar10."
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
    """Bars of average and final accuracy with their bootstrap intervals; a dotted line at the full method's."""
    with mpl.rc_context(layout.STYLE):
        width, row = (4.2, 0.22) if narrow else (9.0, 0.24)
        left = 0.25 + 0.066 * max(len(one.label) for one in measured)
        tall = row * len(measured)
        height = 2 * (tall + 0.75) if narrow else tall + 0.75
        figure = Figure(figsize=(width, height))
        across = width - left - 0.5 if narrow else (width - left - 1.0) / 2
        for number, (key, title) in enumerate(SHOWN.items()):
            x, y = (left, (1 - number) * (tall + 0.75) + 0.5) if narrow else (left + number * (across + 0.55), 0.5)
            axes = figure.add_axes((x / width, y / height, across / width, tall / height))
            for at, one in enumerate(measured):
                summary = one.group.summaries[key]
                axes.barh(at, summary.mean, 0.7, color=layout.colour(0), alpha=0.45 if at else 0.9)
                if summary.low is not None and summary.high is not None:
                    axes.plot([summary.low, summary.high], [at, at], color=layout.INK, linewidth=1.2)
                place = (1.01, at)
                axes.text(*place, f"{summary.mean:.1f}", transform=axes.get_yaxis_transform(), va="center", fontsize=8)
            axes.axvline(measured[0].group.summaries[key].mean, **figures.CHANCE)
            axes.set_ylim(len(measured) - 0.4, -0.6)
            farthest = max(one.group.summaries[key].high or one.group.summaries[key].mean for one in measured)
            axes.set_xlim(0, min(100, 5 * math.ceil(1.05 * farthest / 5)))
            axes.set_yticks(range(len(measured)), [one.label for one in measured] if narrow or not number else [])
            axes.grid(axis="x", color="#808080", alpha=0.2, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.set_xlabel(title)
        return figure


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
        caption = "What the paper says of its ablations on split-cifar10, and what the runs here say"
        sections.append(Section("The paper's claims", [], [(caption, said)]))
    intro = (
        "Each line is the full method with one thing changed, on the same seeds; accuracies are on all classes seen."
    )
    written.insert(0, folder / "ablations.html")
    write_sections(written[0], f"Ablations on {groups[0].protocol}", intro, sections)
    return written


def _on_page(method: str, ablations: Sequence[MeasuredAblation]) -> FigureOnPage:
    caption = "Mean over seeds; the stroke is the 95 % bootstrap interval of the mean, the dotted line the full method."
    alt = "Bars of average accuracy: " + "; ".join(
        f"{one.label} {one.group.summaries['avg'].mean:.1f} %" for one in ablations
    )
    return figure_on_page(
        {"wide": ablation_figure(ablations), "narrow": ablation_figure(ablations, True)},
        f"ablations-{method}",
        caption,
        alt,
    )
