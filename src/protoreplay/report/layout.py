"""Where things stand in a figure: axes with labels beside them, grids of panels, names that fit."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from protoreplay.analysis.results import Group

INK = "#1b1f24"
"""Of all text and axes; the page puts its own colour in its place."""
# After Okabe and Ito, darkened or lightened until each has a contrast of 3 to white and to a dark page.
COLOURS = ("#0072b2", "#d55e00", "#00916a", "#b865a0", "#2f8fc7", "#b07a00", "#7a7a7a", "#8a63d2")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (1.5, 1)))
TOGETHER = 8
"""More methods than this get a panel each: their lines could not be told apart."""
LETTER = 0.074
"""Inches that a letter of a label takes."""
GUTTER = 0.25
"""Inches between axes and the labels at their right."""
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "svg.hashsalt": "protoreplay",
}


def colour(number: int) -> str:
    """Of the method with this number; they come back after eight, when names and markers must tell."""
    return COLOURS[number % len(COLOURS)]


def one_axes(groups: Sequence[Group], narrow: bool) -> tuple[Figure, Axes]:
    """Axes with room at the right for the labels of all groups."""
    width, height = (4.2, 3.5) if narrow else (8.8, 4.1)
    height = max(height, 0.8 + 0.16 * len(groups))
    room = GUTTER + LETTER * min(22 if narrow else 34, max(len(group.label) for group in groups))
    figure = Figure(figsize=(width, height))
    return figure, figure.add_axes((0.6 / width, 0.5 / height, 1 - (0.6 + room) / width, 1 - 0.62 / height))


def resize_figure(figure: Figure, width: float) -> None:
    """Make a figure `width` inches wide, its height, letters, lines and markers in proportion."""
    before, height = figure.get_size_inches()
    scale = width / before
    for text in figure.findobj(Text):
        text.set_fontsize(text.get_fontsize() * scale)
    for line in figure.findobj(Line2D):
        line.set_linewidth(line.get_linewidth() * scale)
        line.set_markersize(line.get_markersize() * scale)
    for axes in figure.axes:
        # Numbers at ticks that are made when it is drawn have the size of the style, not that of those there are.
        axes.tick_params(labelsize=STYLE["font.size"] * scale, pad=3.5 * scale, length=3.5 * scale)
    figure.set_size_inches(width, height * scale)


class PanelScale(NamedTuple):
    """One direction of a panel: its name, the ends of its range, the numbers to show."""

    name: str
    ends: tuple[float, float]
    ticks: Sequence[int]


class Panel(NamedTuple):
    """A small plot: its place in inches, and the range of its values across and up."""

    left: float
    bottom: float
    width: float
    height: float
    across: tuple[float, float]
    up: tuple[float, float]

    def x(self, values: ArrayLike) -> NDArray[np.float64]:
        """Where values stand across, in inches."""
        start, end = self.across
        return self.left + self.width * (np.asarray(values, dtype=np.float64) - start) / (end - start)

    def y(self, values: ArrayLike) -> NDArray[np.float64]:
        """Where values stand up, in inches."""
        start, end = self.up
        return self.bottom + self.height * (np.asarray(values, dtype=np.float64) - start) / (end - start)


class PanelGrid(NamedTuple):
    """Panels in one set of axes that is measured in inches.

    By hand and not by `Figure.subplots`, because a page has six such figures a protocol: for 24 methods one takes
    0.1 to 0.3 s of a processor to draw and write as SVG, with axes of their own 0.9 to 1.4 s, and 1.8 to 3.2 s where
    matplotlib lays them out so that nothing overlaps (`benchmarks/panels.py`).
    """

    figure: Figure
    axes: Axes
    panels: list[Panel]


def panel_grid(
    labels: Sequence[str], narrow: bool, height: float | None, across: PanelScale, up: PanelScale
) -> PanelGrid:
    """A panel for each label, `height` inches high or, for None, square; outer panels have numbers at the ticks."""
    columns = min(2 if narrow else 4 if len(labels) <= TOGETHER else 5, len(labels))
    width, left, gap = 4.2 if narrow else 9.0, 0.55, 0.32
    panel = min((width - left - 0.1) / columns - gap, 2.9)
    width = min(width, left + 0.1 + columns * (panel + gap))
    tall = height or panel
    titles = [_title_lines(label, panel) for label in labels]
    rows = [titles[start : start + columns] for start in range(0, len(titles), columns)]
    # Each row is as high as the longest of its titles needs.
    steps = [tall + 0.2 + 0.14 * max(map(len, row)) for row in rows]
    total = sum(steps) + 0.72
    figure = Figure(figsize=(width, total))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, total))
    axes.set_axis_off()
    made = []
    for number, title in enumerate(titles):
        row, column = divmod(number, columns)
        bottom = total - 0.2 - sum(steps[: row + 1])
        place = Panel(left + column * (panel + gap), bottom, panel, tall, across.ends, up.ends)
        axes.text(place.left, bottom + tall + 0.05, "\n".join(title), fontsize=8, va="bottom")
        if column == 0:
            for tick in up.ticks:
                axes.text(left - 0.06, float(place.y(tick)), str(tick), fontsize=7.5, ha="right", va="center")
        if number + columns >= len(labels):
            for tick in across.ticks:
                axes.text(float(place.x(tick)), bottom - 0.06, str(tick), fontsize=7.5, ha="center", va="top")
        made.append(place)
    axes.text(left + (width - left) / 2, 0.06, across.name, ha="center", va="bottom")
    axes.text(0.03, total / 2, up.name, rotation=90, ha="left", va="center")
    return PanelGrid(figure, axes, made)


def _title_lines(label: str, width: float) -> list[str]:
    """A label in at most three lines of `width` inches."""
    return textwrap.wrap(label, int(width / 0.06), max_lines=3, placeholder="…", break_on_hyphens=False)


def few_ticks(tasks: int) -> list[int]:
    """The first, the middle and the last task."""
    return sorted({1, (tasks + 1) // 2, tasks})


def task_range(tasks: int) -> tuple[float, float]:
    """From a little before the first task to a little after the last."""
    return 1 - 0.03 * tasks, 1.02 * tasks


def task_axis(axes: Axes, tasks: int) -> None:
    """Tasks across, percent up."""
    axes.set_ylim(0, 102)
    axes.set_xlim(task_range(tasks))
    axes.xaxis.set_major_locator(MaxNLocator(10 if tasks > 1 else 1, integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="#808080", alpha=0.2, linewidth=0.6)


def label_right(
    axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], colours: Sequence[str]
) -> None:
    """Each label at the right of the axes, as near to the height of its point as the others allow, and a thin line."""
    # Limits follow what was drawn only when something asks for it.
    axes.autoscale_view()
    ends = [(axes.transData + axes.transAxes.inverted()).transform(point) for point in points]
    width, height = _inches(axes)
    letters = round(((1 - axes.get_position().x1) / axes.get_position().width * width - GUTTER) / LETTER)
    order = sorted(range(len(points)), key=lambda index: -ends[index][1])
    places = _apart([float(ends[index][1]) for index in order], 0.155 / height)
    for index, place in zip(order, places, strict=True):
        x, y = ends[index]
        edge = 1 + 0.18 / width
        line: dict[str, Any] = {
            "color": colours[index],
            "linewidth": 0.6,
            "transform": axes.transAxes,
            "clip_on": False,
        }
        axes.plot([x + 0.05 / width, edge - 0.03 / width], [y, place], **line)
        axes.text(edge, place, short(labels[index], letters), transform=axes.transAxes, va="center")


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Places at least `gap` apart and above 0, in the given falling order, each near its height.

    >>> _apart([0.9, 0.5, 0.5], 0.25)
    [0.9, 0.5, 0.25]
    >>> _apart([0.0, 0.0], 0.25)
    [0.25, 0.0]
    """
    places: list[float] = []
    for height in heights:
        places.append(min(height, places[-1] - gap) if places else height)
    floor = 0.0
    for index in reversed(range(len(places))):
        places[index] = max(places[index], floor)
        floor = places[index] + gap
    return places


def short(label: str, most: int) -> str:
    """A long label without its middle: variants of a method differ at the end."""
    return label if len(label) <= most else f"{label[: most // 3]}…{label[-(most - most // 3 - 1) :]}"


def byte_text(value: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:g} {unit}"


def _inches(axes: Axes) -> tuple[float, float]:
    figure = axes.get_figure(root=True)
    assert figure is not None
    place = axes.get_position()
    return place.width * figure.get_figwidth(), place.height * figure.get_figheight()
