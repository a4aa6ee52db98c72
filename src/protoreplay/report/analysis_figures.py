"""Figures of kept prototypes. A class has the same colour in all of them."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D  # type: ignore[import-untyped]

from protoreplay.analysis import latent
from protoreplay.experiments.snapshots import PrototypeSnapshot
from protoreplay.report import layout
from protoreplay.report.figures import CHANCE, SHADES

Record = Mapping[str, Any]
"""A line of the file of numbers behind a figure."""
PROTOTYPE = "prototype"
FEW_POINTS = 300
"""Of one map: more are drawn smaller, and as pixels."""
LEGEND_MOST = 20
NUMBERS_MOST = 12
FAINT: dict[str, Any] = {"color": "#808080", "alpha": 0.2, "linewidth": 0.6}


class Palette:
    """Names and colours of classes."""

    def __init__(self, names: Sequence[str], classes: Sequence[int]) -> None:
        """Of all classes of a stream, in the order in which they have colours."""
        self.classes = list(classes)
        self._names = names
        # The house's colours, without its second blue.
        few = [*layout.COLOURS[:4], "#66c2e8", *layout.COLOURS[5:], "#7a2b12", "#001f8f"]
        many = mpl.colormaps["turbo"](np.linspace(0.03, 0.97, len(classes)))
        self._colours = few if len(classes) <= len(few) else [mpl.colors.to_hex(row) for row in many]

    def colour(self, label: int) -> str:
        """Of a class."""
        return self._colours[self.classes.index(label)]

    def name(self, label: int) -> str:
        """Of a class, cut to twelve letters."""
        name = self._names[label]
        return name if len(name) <= 12 else f"{name[:11]}…"

    def full(self, label: int) -> str:
        """The whole name of a class."""
        return self._names[label]

    def of_name(self, name: str) -> int:
        """The class of a whole name."""
        return self._names.index(name)

    def legend(self, figure: Figure, axes: Axes, shown: Collection[str]) -> None:
        """Colours and names of the classes that are shown, by their whole names, where there are not too many."""
        classes = [label for label in self.classes if self.full(label) in shown]
        if len(classes) <= LEGEND_MOST:
            handles = [
                axes.plot([], [], "o", color=self.colour(c), label=self.name(c), markersize=5)[0] for c in classes
            ]
            figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=8)


def embedding_maps_figure(records: Sequence[Record], palette: Palette) -> Figure:
    """Maps of images (dots) and prototypes (hollow squares): a row a kind of map, a column a task.

    Each record is a point: its `map`, `task`, what it is `of` (a prototype or an image), its `class`, `x` and `y`.
    """
    kinds, tasks = (list(dict.fromkeys(row[key] for row in records)) for key in ("map", "task"))
    figure = Figure(figsize=(2.75 * len(tasks) + 1.1, 2.75 * len(kinds)), layout="constrained")
    grid = figure.subplots(len(kinds), len(tasks), squeeze=False)
    for axes, (kind, task) in zip(grid.flat, itertools.product(kinds, tasks), strict=True):
        own = [row for row in records if (row["map"], row["task"]) == (kind, task)]
        colours = [palette.colour(palette.of_name(row["class"])) for row in own]
        images = [(row["x"], row["y"], ink) for row, ink in zip(own, colours, strict=True) if row["of"] != PROTOTYPE]
        x, y, inks = zip(*images, strict=True)
        many = len(images) > FEW_POINTS
        axes.scatter(x, y, c=inks, s=7 if many else 22, alpha=0.55, linewidths=0, rasterized=many)
        for row, colour in zip(own, colours, strict=True):
            if row["of"] == PROTOTYPE:
                # A dark rim shows the square on dots of its own colour.
                for ink, width in ((layout.INK, 3.2), (colour, 1.8)):
                    axes.plot(row["x"], row["y"], "s", ms=9, fillstyle="none", color=ink, markeredgewidth=width)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.08)
        axes.set_title(f"{kind}, after task {task}")
    palette.legend(figure, grid[0, 0], {row["class"] for row in records})
    return figure


def motion_figure(records: Sequence[Record], palette: Palette) -> Figure:
    """The paths of prototypes in three axes, and seen along each; black squares are the last positions.

    Each record is a `class` after a `task`: its prototype's mean in three axes, `axis_1` to `axis_3`.
    """
    figure = Figure(figsize=(9.4, 7.4), layout="constrained")
    space: Axes3D = figure.add_subplot(2, 2, 1, projection="3d")
    space.set_box_aspect(None, zoom=0.86)
    flat = [(figure.add_subplot(2, 2, place), pair) for place, pair in ((2, (0, 1)), (3, (0, 2)), (4, (1, 2)))]
    for name in dict.fromkeys(row["class"] for row in records):
        points = np.array([[row[f"axis_{n}"] for n in (1, 2, 3)] for row in records if row["class"] == name])
        colour = palette.colour(palette.of_name(name))
        style: dict[str, Any] = {"color": colour, "linewidth": 1.2}
        space.plot(*points.T, marker="o", markersize=2.5, **style)
        last: dict[str, Any] = {"color": layout.INK, "markeredgecolor": colour, "markersize": 5.5}
        space.plot(*points[-1:].T, "s", **last)
        for plane, (x, y) in flat:
            plane.plot(points[:, x], points[:, y], marker="o", markersize=2.5, **style)
            plane.plot(points[-1, x], points[-1, y], "s", **last)
    for plane, (x, y) in flat:
        plane.set(xlabel=f"axis {x + 1}", ylabel=f"axis {y + 1}")
        plane.grid(**FAINT)
    space.set(xlabel="axis 1", ylabel="axis 2", zlabel="axis 3")
    space.locator_params(nbins=4)
    space.tick_params(labelsize=7)
    palette.legend(figure, flat[0][0], {row["class"] for row in records})
    return figure


def heat_map_figure(
    cells: latent.Floats, down: Sequence[str], across: Sequence[str], labels: tuple[str, str, str], percent: bool
) -> Figure:
    """A map of numbers with a scale, from 0 to 100 for `percent`; `labels` are of the scale, of down and of across."""
    height = min(9.0, 1.2 + 0.34 * len(down))
    figure = Figure(figsize=(min(9.4, 2.8 + 0.5 * len(across)), height), layout="constrained")
    axes = figure.subplots()
    _heat(figure, axes, cells, down, across, labels[0], ".0f" if percent else ".2g")
    if percent:
        axes.images[0].set_clim(0, 100)
    axes.set(ylabel=labels[1], xlabel=labels[2])
    return figure


def _heat(
    figure: Figure,
    axes: Axes,
    cells: latent.Floats,
    down: Sequence[str],
    across: Sequence[str],
    label: str,
    form: str | None,
) -> None:
    shown = axes.imshow(cells, SHADES, aspect="auto")
    figure.colorbar(shown, ax=axes, label=label, shrink=0.9)
    if len(down) <= 40:
        axes.set_yticks(range(len(down)), down)
    if len(across) <= 40:
        turned = 90 if max(map(len, across)) > 3 else 0
        axes.set_xticks(range(len(across)), across, rotation=turned)
    if form and max(cells.shape) <= NUMBERS_MOST:
        middle = 50 if form == ".0f" else (np.nanmin(cells) + np.nanmax(cells)) / 2
        for (row, column), value in np.ndenumerate(cells):
            if np.isfinite(value):
                ink = "#ffffff" if value < middle else "#000000"
                axes.text(column, row, format(value, form), ha="center", va="center", color=ink, fontsize=8)


def similarity_figure(records: Sequence[Record], palette: Palette) -> Figure:
    """Both matrices, and a point for each pair of classes.

    Each record is a pair: the names of the `first` and `second` class, and their `visual` and `motion` similarity.
    """
    names = list(dict.fromkeys(row[key] for key in ("first", "second") for row in records))
    shown = [palette.name(palette.of_name(name)) for name in names]
    figure = Figure(figsize=(11.2, 3.7), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    matrices = []
    for axes, key, title in ((left, "visual", "visual features"), (middle, "motion", "motion of prototypes")):
        matrix = np.full((len(names), len(names)), np.nan)
        for row in records:
            i, j = names.index(row["first"]), names.index(row["second"])
            matrix[i, j] = matrix[j, i] = row[key]
        _heat(figure, axes, matrix, shown, shown, "minus the distance", None)
        axes.set_title(title)
        matrices.append(matrix)
    right.plot(
        *([row[key] for row in records] for key in ("visual", "motion")), "o", color=layout.colour(0), ms=4, alpha=0.7
    )
    right.set(xlabel="visual similarity", ylabel="similarity of motion")
    right.locator_params(nbins=5)
    if found := latent.correlation(*matrices):
        right.set_title(f"r = {found.r:.2f}, p = {found.p:.2g}, {found.pairs} pairs")
    right.grid(**FAINT)
    return figure


def confidence_figure(snapshot: PrototypeSnapshot, dropped: latent.DroppedDimensions) -> Figure:
    """Variances of all dimensions in order, and accuracy without the most or the least confident of them."""
    figure = Figure(figsize=(9.4, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    order = np.argsort(snapshot.variance.mean(0), kind="stable")
    for row in snapshot.variance[:LEGEND_MOST, order]:
        left.plot(row, color=layout.colour(0), alpha=0.25, linewidth=0.7)
    left.plot(snapshot.variance.mean(0)[order], color=layout.INK, linewidth=1.5)
    left.set_yscale("log")
    left.set(xlabel="dimensions, the most confident first", ylabel="variance of prototypes")
    for number, (name, values) in enumerate(
        (("most confident dropped", dropped.confident_first), ("least confident dropped", dropped.unsure_first))
    ):
        style = {"color": layout.colour(number), "marker": layout.MARKERS[number], "linestyle": layout.DASHES[number]}
        right.plot(100 * dropped.shares, 100 * values, label=name, markersize=4, **style)
    right.set(xlabel="dimensions dropped (%)", ylabel="accuracy (%)", ylim=(0, 102))
    right.legend(frameon=False, loc="best")
    for axes in (left, right):
        axes.grid(**FAINT)
    return figure


def reliability_figure(found: latent.Reliability) -> Figure:
    """How often answers of a confidence are right, and how many there are of each."""
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 100], [0, 100], **CHANCE)
    there = found.answers > 0
    style: dict[str, Any] = {"color": layout.colour(0), "marker": "o", "markersize": 4, "clip_on": False, "zorder": 3}
    upper.plot(100 * found.confidence[there], 100 * found.accuracy[there], **style)
    upper.set(ylabel="right (%)", xlim=(0, 100), ylim=(0, 102))
    upper.set_title(f"expected calibration error {100 * found.error:.1f} points")
    width = 100 / len(found.answers)
    lower.bar((np.arange(len(found.answers)) + 0.5) * width, found.answers, 0.9 * width, color=layout.colour(0))
    lower.set(xlabel="confidence (%)", ylabel="answers")
    for axes in (upper, lower):
        axes.grid(axis="y", **FAINT)
    return figure
