"""Where things stand in a figure: axes with labels beside them, grids of panels, names that fit."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from protoreplay.report.results import Group

INK = "#1b1f24"
"""Of all text and axes; the page puts its own colour in its place."""
# After Okabe and Ito, darkened or lightened until each has a contrast of 3 to white and to a dark page.
COLOURS = ("#0072b2", "#d55e00", "#00916a", "#b865a0", "#2f8fc7", "#b07a00", "#7a7a7a", "#8a63d2")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (1.5, 1)))
TOGETHER = 8
"""More methods than this get a panel each: their lines could not be told apart."""
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


def one_axes(groups: Sequence[Group], narrow: bool) -> tuple[Figure, Axes]:
    """Axes with room at the right for the labels of all groups."""
    longest = max(len(short(group.label)) for group in groups)
    width, height = (4.2, 3.5) if narrow else (7.6, 3.9)
    height = max(height, 0.8 + 0.16 * len(groups))
    room = 0.28 + 0.067 * longest
    figure = Figure(figsize=(width, height))
    return figure, figure.add_axes((0.55 / width, 0.5 / height, 1 - (0.55 + room) / width, 1 - 0.62 / height))


def panels(groups: Sequence[Group], narrow: bool, height: float | None) -> tuple[Figure, list[Axes]]:
    """A grid of axes, one a group, `height` inches high or, for None, square."""
    columns = min(2 if narrow else 4 if len(groups) <= TOGETHER else 5, len(groups))
    rows = math.ceil(len(groups) / columns)
    width, left, gap = 4.2 if narrow else 9.0, 0.5, 0.32
    panel = min((width - left - 0.1) / columns - gap, 2.9)
    width = min(width, left + 0.1 + columns * (panel + gap))
    tall = height or panel
    title = 0.15 * max(len(_title_lines(group.label, panel)) for group in groups) + 0.07
    total = rows * (tall + title + 0.12) + 0.62
    figure = Figure(figsize=(width, total))
    made: list[Axes] = []
    for number in range(len(groups)):
        row, column = divmod(number, columns)
        bottom = total - 0.25 - (row + 1) * (tall + title + 0.12) + 0.12
        place = ((left + column * (panel + gap)) / width, bottom / total, panel / width, tall / total)
        axes = figure.add_axes(place)
        last_of_column = number + columns >= len(groups)
        axes.tick_params(labelleft=column == 0, labelbottom=last_of_column, labelsize=7.5)
        made.append(axes)
    return figure, made


def outer_labels(figure: Figure, across: str, down: str) -> None:
    figure.text(0.5, 0.06 / figure.get_figheight(), across, ha="center", va="bottom")
    figure.text(0.03 / figure.get_figwidth(), 0.5, down, rotation=90, ha="left", va="center")


def title(axes: Axes, label: str) -> None:
    lines = _title_lines(label, _inches(axes)[0])
    axes.set_title("\n".join(lines), loc="left", fontsize=8.5, pad=3)


def _title_lines(label: str, width: float) -> list[str]:
    """A label in at most three lines of `width` inches."""
    letters = int(width / 0.066)
    return textwrap.wrap(label, letters, max_lines=3, placeholder="…")


def task_axis(axes: Axes, tasks: int) -> None:
    axes.set_ylim(0, 102)
    axes.set_xlim(1 - 0.03 * tasks, tasks + 0.02 * tasks)
    axes.xaxis.set_major_locator(MaxNLocator(10 if tasks > 1 else 1, integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="#808080", alpha=0.2, linewidth=0.6)


def label_right(axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str]) -> None:
    """Each label at the right of the axes, as near to the height of its point as the others allow, and a thin line."""
    to_fraction = axes.transData + axes.transAxes.inverted()
    heights = [float(to_fraction.transform(point)[1]) for point in points]
    gap = 0.155 / _inches(axes)[1]
    order = sorted(range(len(points)), key=lambda index: -heights[index])
    for index, place in zip(order, _spread([heights[index] for index in order], gap), strict=True):
        axes.annotate(
            short(labels[index]),
            points[index],
            (1.035, place),
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": COLOURS[index % len(COLOURS)],
                "lw": 0.6,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """Places at least `gap` apart and above 0, in the given falling order, each near its height.

    >>> _spread([0.9, 0.5, 0.5], 0.25)
    [0.9, 0.5, 0.25]
    >>> _spread([0.0, 0.0], 0.25)
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


def short(label: str, most: int = 30) -> str:
    """A long label without its middle: variants of a method differ at the end."""
    return label if len(label) <= most else f"{label[: most // 3]}…{label[-(most - most // 3 - 1) :]}"


def byte_text(value: float) -> str:
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
