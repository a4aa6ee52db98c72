"""What the HTML pages share: the templates, figures as part of a page, pages made of sections."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from protoreplay.core.files import write_whole
from protoreplay.report import figures, layout
from protoreplay.report.formats import Table


class FigureOnPage(NamedTuple):
    """A figure in one or more layouts, each an element of the page, and what stands below."""

    layouts: list[Markup]
    caption: str


class Section(NamedTuple):
    """A part of a page: heading, figures, and tables with their captions."""

    title: str
    figures: list[FigureOnPage]
    tables: list[tuple[str, Table]]


def figure_on_page(layouts: Mapping[str, Figure], name: str, caption: str, alt: str) -> FigureOnPage:
    """Figures by layout (`wide`, `narrow`; `only` where one serves all) for a page, described in words by `alt`."""
    return FigureOnPage([inline_svg(figure, f"{name}-{size}", size, alt) for size, figure in layouts.items()], caption)


def inline_svg(figure: Figure, name: str, size: str, alt: str) -> Markup:
    """A figure as an `svg` element: ids of its own, described in words, its ink in the colour of the page's text."""
    svg = figures.render_figure(figure, "svg", inline=True).decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(layout.INK, "currentColor")
    return Markup(svg.replace("<svg", f'<svg class="{size}" role="img" aria-label="{escape(alt)}"', 1))


def write_sections(path: Path, title: str, intro: str, sections: Sequence[Section]) -> None:
    """Write a page of sections."""
    page = template("sections.html").render(title=title, intro=intro, sections=sections)
    write_whole(path, page.encode())


def table_element(table: Table, caption: str) -> str:
    """A table as HTML, for a notebook."""
    parts: Any = template("parts.html").module
    return str(parts.grid(table, caption))


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
