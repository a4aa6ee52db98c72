"""One self-contained HTML page that opens offline, and its figures as files for papers."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from protoreplay.analysis import claims
from protoreplay.analysis.results import Group
from protoreplay.core.files import write_whole
from protoreplay.report import figures, layout, table
from protoreplay.report.claims_table import claims_table
from protoreplay.report.formats import Table

PAPER_FORMATS = ("png", "svg", "pdf")


def write_page(groups: list[Group], unfinished: int, path: Path, against: str | None = None) -> None:
    """Write the page to `path`; `against` is the method whose difference from the others is marked in the tables."""
    page = template("page.html").render(
        sections=[_section(number, part, against) for number, part in enumerate(_by_protocol(groups))],
        runs=sum(len(group.results) for group in groups),
        unfinished=unfinished,
        most=figures.MOST,
        claims=claims_table(groups) if claims.any_measured(groups) else None,
        settings=[_settings(group) for group in groups],
        versions=_versions(groups),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page.encode())


class FigureOnPage(NamedTuple):
    """A figure in one or more layouts, each an element of the page, and what stands below."""

    layouts: list[Markup]
    caption: str


class Section(NamedTuple):
    """A part of a page: heading, text, figures, and tables with their captions."""

    title: str
    text: str
    figures: list[FigureOnPage]
    tables: list[tuple[str, Table]]


def figure_on_page(layouts: Mapping[str, Figure], name: str, caption: str, alt: str) -> FigureOnPage:
    """Figures by layout (`wide`, `narrow`; `only` where one serves all) for a page, described in words by `alt`."""
    return FigureOnPage([inline(figure, f"{name}-{size}", size, alt) for size, figure in layouts.items()], caption)


def write_sections(path: Path, title: str, intro: str, sections: Sequence[Section]) -> None:
    """Write a page of sections."""
    page = template("analysis.html").render(title=title, intro=intro, sections=sections)
    write_whole(path, page.encode())


def template(name: str) -> jinja2.Template:
    """A page of this room, to be filled."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("protoreplay", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def write_figures(groups: list[Group], folder: Path) -> list[Path]:
    """Write every figure of every protocol as PNG, SVG and PDF; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in _by_protocol(groups):
        for name, drawing in figures.FIGURES.items():
            figure = figures.draw(drawing, part)
            for format in PAPER_FORMATS:
                written.append(folder / f"{_file_name(part[0].protocol)}-{name}.{format}")
                figures.save(figure, written[-1])
    return written


def _by_protocol(groups: list[Group]) -> list[list[Group]]:
    return [list(members) for _, members in itertools.groupby(groups, key=lambda group: group.protocol)]


def _section(number: int, groups: Sequence[Group], against: str | None) -> dict[str, Any]:
    labels = {group.label for group in groups}
    drawn = []
    for name, drawing in figures.FIGURES.items():
        alt = drawing.alt(groups[: figures.MOST])
        layouts = [
            inline(figures.draw(drawing, groups, narrow), f"s{number}-{name}-{size}", size, alt)
            for size, narrow in (("wide", False), ("narrow", True))
        ]
        drawn.append({"title": drawing.title, "caption": drawing.caption, "layouts": layouts})
    return {
        "protocol": groups[0].protocol,
        "methods": len(groups),
        "table": table.results(groups, against=against if against in labels else None),
        "figures": drawn,
    }


def inline(figure: Figure, name: str, size: str, alt: str) -> Markup:
    """A figure as an `svg` element: ids of its own, described in words, its ink in the colour of the page's text."""
    svg = figures.render(figure, "svg", inline=True).decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(layout.INK, "currentColor")
    return Markup(svg.replace("<svg", f'<svg class="{size}" role="img" aria-label="{escape(alt)}"', 1))


def _settings(group: Group) -> dict[str, Any]:
    return {
        "title": f"{group.protocol}: {group.label}",
        "seeds": _ranges([result.config.seed for result in group.results]),
        "config": json.dumps(group.results[0].config.without_seed(), indent=2),
    }


def _versions(groups: Sequence[Group]) -> list[tuple[str, int]]:
    """Each set of versions with the number of runs made under it."""
    texts = (
        ", ".join(f"{name} {value}" for name, value in result.config.versions.items())
        for group in groups
        for result in group.results
    )
    return Counter(texts).most_common()


def _ranges(seeds: Sequence[int]) -> str:
    """Seeds for people.

    >>> _ranges([0, 1, 2, 5])
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
