"""The page of a folder of runs, self-contained so that it opens offline, and its figures as files for papers."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protoreplay.analysis.motion import MotionRecord
from protoreplay.analysis.results import Group
from protoreplay.analysis.verdicts import any_measured, judge_claims
from protoreplay.core.files import write_whole
from protoreplay.report import layout
from protoreplay.report.claims_table import claims_summary, claims_table
from protoreplay.report.confusion_figure import CONFUSIONS, has_confusions
from protoreplay.report.figures import FIGURES, MOST, Drawing, draw_figure, save_figure
from protoreplay.report.html_parts import figure_on_page, template
from protoreplay.report.method_tables import results_table

PAPER_FORMATS = ("png", "svg", "pdf")
NARROW = 5.0
"""Inches below which a figure for a paper has the layout of a column."""


def write_results_page(
    groups: list[Group],
    unfinished: int,
    path: Path,
    against: str | None = None,
    drawings: Mapping[str, Drawing] = FIGURES,
    motion: MotionRecord | None = None,
) -> None:
    """Write the page.

    Args:
        groups: the methods, those of a protocol together.
        unfinished: how many runs are not shown.
        path: where the page goes.
        against: the method whose difference from the others is marked in the tables.
        drawings: the figures, by name.
        motion: how prototypes moved, for the claims about it.
    """
    judged = judge_claims(groups, motion) if any_measured(groups, motion) else []
    page = template("results_page.html").render(
        sections=[
            _protocol_section(number, part, against, drawings) for number, part in enumerate(_by_protocol(groups))
        ],
        runs=sum(len(group.results) for group in groups),
        unfinished=unfinished,
        most=MOST,
        claims=claims_table(judged) if judged else None,
        claims_summary=claims_summary(judged),
        settings=[_recorded_settings(group) for group in groups],
        versions=_versions(groups),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page.encode())


def write_figures(groups: list[Group], folder: Path, width: float | None = None) -> list[Path]:
    """Write every figure of every protocol as PNG, SVG and PDF; returns what was written.

    With a `width` in inches each is exactly so wide, letters and lines in proportion; below `NARROW` inches in the
    layout of a column.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in _by_protocol(groups):
        for name, drawing in _with_confusions(FIGURES, part).items():
            figure = draw_figure(drawing, part, narrow=width is not None and width < NARROW)
            if width is not None:
                layout.resize_figure(figure, width)
            for format in PAPER_FORMATS:
                written.append(folder / f"{_file_name(part[0].protocol)}-{name}.{format}")
                save_figure(figure, written[-1])
    return written


def _with_confusions(drawings: Mapping[str, Drawing], groups: Sequence[Group]) -> dict[str, Drawing]:
    """Also the confusion of classes, where all figures are drawn and runs counted their answers by class."""
    wanted = drawings is FIGURES and any(has_confusions(group) for group in groups[:MOST])
    return {**drawings, **({"confusion": CONFUSIONS} if wanted else {})}


def _by_protocol(groups: list[Group]) -> list[list[Group]]:
    return [list(members) for _, members in itertools.groupby(groups, key=lambda group: group.protocol)]


def _protocol_section(
    number: int, groups: Sequence[Group], against: str | None, drawings: Mapping[str, Drawing]
) -> dict[str, Any]:
    labels = {group.label for group in groups}
    drawn = []
    for name, drawing in _with_confusions(drawings, groups).items():
        layouts = {size: draw_figure(drawing, groups, narrow) for size, narrow in (("wide", False), ("narrow", True))}
        alt = drawing.alt(groups[:MOST])
        drawn.append((drawing.title, figure_on_page(layouts, f"s{number}-{name}", drawing.caption, alt)))
    return {
        "protocol": groups[0].protocol,
        "methods": len(groups),
        "table": results_table(groups, against=against if against in labels else None),
        "figures": drawn,
    }


def _recorded_settings(group: Group) -> dict[str, Any]:
    return {
        "title": f"{group.protocol}: {group.label}",
        "seeds": seed_ranges([result.config.seed for result in group.results]),
        "config": json.dumps(group.results[0].config.without_seed(), indent=2),
    }


def _versions(groups: Sequence[Group]) -> list[tuple[str, int]]:
    """Each set of versions with the number of runs made under it; recorded runs have none."""
    texts = (
        ", ".join(f"{name} {value}" for name, value in result.config.versions.items())
        for group in groups
        for result in group.results
        if "protoreplay" in result.config.versions
    )
    return Counter(texts).most_common()


def seed_ranges(seeds: Sequence[int]) -> str:
    """Seeds for people.

    >>> seed_ranges([0, 1, 2, 5])
    '0-2, 5'
    """
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.,=+@-]+", "_", text)
