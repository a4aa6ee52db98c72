"""Figures for the page and for papers, each in a wide layout and in a narrow one for phones.

Readable in grey: methods differ in marker and dashes and stand under their own name, beside their line or above their
panel; shades run from dark to light.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from protoreplay.analysis.results import Curve, Group
from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.metrics.accuracy import accuracies
from protoreplay.report import layout

CHANCE: dict[str, Any] = {"color": layout.INK, "linestyle": (0, (1, 2)), "linewidth": 1}
SHADES = "cividis"
"""From dark to light, and the same for the colour-blind."""
MOST = 24
"""More methods than this are not drawn."""


class Drawing(NamedTuple):
    """A figure of the report: its heading, what it shows, how to draw it (narrow or not), and its text in words."""

    title: str
    caption: str
    draw: Callable[[Sequence[Group], bool], Figure]
    alt: Callable[[Sequence[Group]], str]


def accuracy_figure(groups: Sequence[Group], narrow: bool = False) -> Figure:
    """Accuracy on everything seen after each task, with the line of chance."""
    curves = [group.accuracy for group in groups]
    return _curves(groups, curves, "accuracy on everything seen (%)", narrow, chance=groups[0].chance())


def standard_errors_figure(groups: Sequence[Group]) -> Figure:
    """The paper's figure of accuracy: after each task, mean and standard error over seeds, and the line of chance."""
    with mpl.rc_context(layout.STYLE):
        figure, axes = layout.one_axes(groups, False)
        ends, colours = [], [layout.colour(number) for number in range(len(groups))]
        highest = 0.0
        for number, group in enumerate(groups):
            values = np.array([accuracies(result.counts) for result in group.results]) * 100
            mean = values.mean(0)
            error = values.std(0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.zeros_like(mean)
            # Side by side, so that bars do not hide each other.
            x = _task_numbers(mean) + 0.025 * (number - (len(groups) - 1) / 2)
            style: dict[str, Any] = {"color": colours[number], "linewidth": 2 if number == 0 else 1.2}
            style |= {"linestyle": layout.DASHES[number % len(layout.DASHES)], "capsize": 2, "zorder": 10 - number}
            axes.errorbar(x, mean, error, marker=layout.MARKERS[number % len(layout.MARKERS)], ms=4, **style)
            ends.append((float(x[-1]), float(mean[-1])))
            highest = max(highest, float((mean + error).max()))
        chance = groups[0].chance()
        axes.plot(_task_numbers(chance), chance, **CHANCE)
        layout.task_axis(axes, len(chance))
        axes.set(xlabel="tasks learned", ylabel="accuracy on everything seen (%)", ylim=(0, min(102, highest + 4)))
        labels = [*(group.label for group in groups), "chance"]
        layout.label_right(axes, [*ends, (len(chance), chance[-1])], labels, [*colours, layout.INK])
        return figure


def first_task_figure(groups: Sequence[Group], narrow: bool = False) -> Figure:
    """Accuracy on the first task after each task."""
    return _curves(groups, [group.first_task for group in groups], "accuracy on the first task (%)", narrow)


def _curves(
    groups: Sequence[Group], curves: list[Curve], what: str, narrow: bool, chance: list[float] | None = None
) -> Figure:
    if len(groups) > layout.TOGETHER:
        return _curve_panels(groups, curves, what, narrow, chance)
    figure, axes = layout.one_axes(groups, narrow)
    tasks = max(len(curve.mean) for curve in curves)
    labels, colours = [group.label for group in groups], [layout.colour(number) for number in range(len(groups))]
    ends = [(len(curve.mean), float(curve.mean[-1])) for curve in curves]
    for number, curve in enumerate(curves):
        _line(axes, _task_numbers(curve.mean), curve, number, tasks)
    layout.task_axis(axes, tasks)
    axes.set_xlabel("tasks learned")
    axes.set_ylabel(what)
    if chance:
        axes.plot(_task_numbers(chance), chance, **CHANCE)
        labels, colours, ends = [*labels, "chance"], [*colours, layout.INK], [*ends, (len(chance), chance[-1])]
    layout.label_right(axes, ends, labels, colours)
    return figure


def _curve_panels(
    groups: Sequence[Group], curves: list[Curve], what: str, narrow: bool, chance: list[float] | None
) -> Figure:
    """One panel a method, with all the others in grey behind it."""
    tasks = max(len(curve.mean) for curve in curves)
    across = layout.PanelScale("tasks learned", layout.task_range(tasks), layout.few_ticks(tasks))
    up = layout.PanelScale(what, (0, 102), (0, 50, 100))
    figure, axes, panels = layout.panel_grid([group.label for group in groups], narrow, 1.25, across, up)
    for other in curves:
        x, y = _joined([(panel.x(_task_numbers(other.mean)), panel.y(other.mean)) for panel in panels])
        axes.plot(x, y, color="#808080", alpha=0.3, linewidth=0.6)
    for line, style in _frames(panels):
        axes.plot(*line, **style)
    if chance:
        axes.plot(*_joined([(panel.x(_task_numbers(chance)), panel.y(chance)) for panel in panels]), **CHANCE)
        first = panels[0]
        axes.text(first.left + first.width, float(first.y(chance[-1] + 6)), "chance", fontsize=7, ha="right")
    placed = [Curve(*map(panel.y, curve)) for panel, curve in zip(panels, curves, strict=True)]
    x, *ends = _joined([(panel.x(_task_numbers(c.mean)), *c) for panel, c in zip(panels, placed, strict=True)])
    _line(axes, x, Curve(*ends), 0, tasks)
    for panel, curve, at in zip(panels, curves, placed, strict=True):
        axes.text(panel.left + panel.width + 0.03, at.mean[-1], f"{curve.mean[-1]:.0f}", va="center", fontsize=7.5)
    return figure


def _frames(panels: Sequence[layout.Panel]) -> list[tuple[list[NDArray[np.float64]], dict[str, Any]]]:
    """The left and lower edge of every panel, and a faint line at 50 and at 100."""
    edges, rules = [], []
    for panel in panels:
        top, right = panel.bottom + panel.height, panel.left + panel.width
        edges.append((np.array([panel.left, panel.left, right]), np.array([top, panel.bottom, panel.bottom])))
        rules += [(np.array([panel.left, right]), np.array([at, at])) for at in panel.y([50, 100])]
    return [
        (_joined(edges), {"color": layout.INK, "linewidth": 0.7}),
        (_joined(rules), {"color": "#808080", "alpha": 0.2, "linewidth": 0.6}),
    ]


def _joined(parts: Sequence[tuple[NDArray[np.float64], ...]]) -> list[NDArray[np.float64]]:
    """Many lines as one with gaps: drawn at once, in a fraction of the time."""
    gap = np.array([np.nan])
    return [
        np.concatenate([piece for values in column for piece in (values, gap)]) for column in zip(*parts, strict=True)
    ]


def _task_numbers(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    return np.arange(1, len(values) + 1, dtype=np.float64)


def _line(axes: Axes, x: NDArray[np.float64], curve: Curve, number: int, tasks: int) -> None:
    colour = layout.colour(number)
    axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(
        x,
        curve.mean,
        color=colour,
        linestyle=layout.DASHES[number % len(layout.DASHES)],
        marker=layout.MARKERS[number % len(layout.MARKERS)],
        markevery=max(1, tasks // 10),
        markersize=4,
        linewidth=1.5,
    )


def matrices_figure(groups: Sequence[Group], narrow: bool = False) -> Figure:
    """Accuracy on task j (across) after task i (down), mean over seeds: one map a method."""
    maps = [group.matrix for group in groups]
    tasks = max(map(len, maps))
    across = layout.PanelScale("tested on task", (0.5, tasks + 0.5), layout.few_ticks(tasks))
    down = layout.PanelScale("after task", (tasks + 0.5, 0.5), layout.few_ticks(tasks))
    figure, axes, panels = layout.panel_grid([group.label for group in groups], narrow, None, across, down)
    size = panels[0].width / tasks
    for panel, cells in zip(panels, maps, strict=True):
        left, right = panel.x([0.5, len(cells) + 0.5])
        top, bottom = panel.y([0.5, len(cells) + 0.5])
        axes.imshow(cells, SHADES, extent=(left, right, bottom, top), vmin=0, vmax=100, aspect="auto")
        for (row, column), value in np.ndenumerate(cells):
            if column <= row and size > 0.17:
                at = float(panel.x(column + 1)), float(panel.y(row + 1))
                ink = "#ffffff" if value < 55 else "#000000"
                axes.text(*at, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=min(8, 30 * size))
    width, height = figure.get_size_inches()
    middle = width / 2, height - 0.12
    ends = (middle[0] - 0.6, middle[0] + 0.6, middle[1] - 0.05, middle[1] + 0.05)
    axes.imshow(np.linspace(0, 100, 64)[None], SHADES, extent=ends, vmin=0, vmax=100, aspect="auto")
    axes.text(ends[0] - 0.06, middle[1], "accuracy 0 %", ha="right", va="center")
    axes.text(ends[1] + 0.06, middle[1], "100 %", ha="left", va="center")
    axes.set(xlim=(0, width), ylim=(0, height))
    return figure


def kept_bytes_figure(groups: Sequence[Group], narrow: bool = False) -> Figure:
    """Average accuracy against the bytes carried from task to task."""
    figure, axes = layout.one_axes(groups, narrow)
    points = [(group.summaries["kept_bytes"].mean, group.summaries["avg"].mean) for group in groups]
    for number, (group, point) in enumerate(zip(groups, points, strict=True)):
        summary, colour = group.summaries["avg"], layout.colour(number)
        if summary.low is not None and summary.high is not None:
            axes.plot([point[0]] * 2, [summary.low, summary.high], color=colour, linewidth=1)
        axes.plot(*point, color=colour, marker=layout.MARKERS[number % len(layout.MARKERS)], markersize=6)
    least, most = min(x for x, _ in points), max(x for x, _ in points)
    if 0 < 8 * least < most:
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=4)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: layout.byte_text(value))
    axes.minorticks_off()
    axes.set_xlabel("kept, network included")
    axes.set_ylabel("average accuracy (%)")
    axes.grid(color="#808080", alpha=0.2, linewidth=0.6)
    layout.label_right(axes, points, [group.label for group in groups], [layout.colour(n) for n in range(len(groups))])
    return figure


def run_time_figure(groups: Sequence[Group], narrow: bool = False) -> Figure:
    """Seconds of learning and testing per run: the mean, and each run as a stroke."""
    names = [layout.short(group.label, 26 if narrow else 44) for group in groups]
    width, left = 4.2 if narrow else 8.8, 0.3 + 0.068 * max(map(len, names))
    height = 0.75 + 0.21 * len(groups)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((left / width, 0.5 / height, 1 - (left + 0.55) / width, 1 - 0.6 / height))
    for number, group in enumerate(groups):
        runs = sorted(group.values["seconds"].values())
        strokes = runs if len(runs) <= 30 else [runs[round(q * (len(runs) - 1) / 29)] for q in range(30)]
        axes.plot(strokes, [number] * len(strokes), "|", color=layout.colour(0), alpha=0.8, markersize=8)
        mean = group.summaries["seconds"].mean
        axes.plot(mean, number, "o", color=layout.colour(0), markersize=5)
        axes.text(1.015, number, f"{mean:,.1f}", transform=axes.get_yaxis_transform(), va="center")
    times = [value for group in groups for value in group.values["seconds"].values()]
    if min(times) > 0 and max(times) > 30 * min(times):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_yticks(range(len(groups)), names)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.grid(axis="x", color="#808080", alpha=0.2, linewidth=0.6)
    axes.set_xlabel("seconds per run, at the right the mean")
    return figure


def _ranking(groups: Sequence[Group], key: str, unit: str) -> str:
    named = [f"{group.label} {group.summaries[key].mean:.1f}{unit}" for group in groups]
    return "; ".join(named)


FIGURES: dict[str, Drawing] = {
    "accuracy": Drawing(
        "Accuracy after each task",
        "Accuracy on all classes seen so far, mean over seeds. The band is Student's 95 % interval of the mean; the "
        "dotted line is chance among the classes seen.",
        accuracy_figure,
        lambda groups: f"Lines of accuracy after each task. Average over tasks: {_ranking(groups, 'avg', ' %')}.",
    ),
    "first-task": Drawing(
        "Retention of the first task",
        "Accuracy on the first task's test images as later tasks are learned. The band is as above.",
        first_task_figure,
        lambda groups: (
            "Lines of accuracy on the first task. Share retained after the last task: "
            f"{_ranking(groups, 'first_task_retention', ' %')}."
        ),
    ),
    "matrix": Drawing(
        "Task by task",
        "Accuracy on each task (across) after each task (down), mean over seeds.",
        matrices_figure,
        lambda groups: (
            "A map for each method of the accuracy on each task after each task. Forgetting: "
            f"{_ranking(groups, 'forgetting', ' points')}."
        ),
    ),
    "memory": Drawing(
        "Accuracy and memory",
        "Average accuracy, with Student's 95 % interval, against all bytes carried from task to task.",
        kept_bytes_figure,
        lambda groups: (
            "Points of average accuracy against kept bytes. Kept: "
            + "; ".join(f"{group.label} {group.summaries['kept_bytes'].mean:,.0f} bytes" for group in groups)
        ),
    ),
    "time": Drawing(
        "Time per run",
        "Time for learning and testing, measured on the machine of each run. Strokes are runs, dots their mean.",
        run_time_figure,
        lambda groups: f"Points of seconds per run. Mean: {_ranking(groups, 'seconds', ' s')}.",
    ),
}


def draw_figure(drawing: Drawing, groups: Sequence[Group], narrow: bool = False) -> Figure:
    """A figure of at most `MOST` groups, the first ones."""
    with mpl.rc_context(layout.STYLE):
        return drawing.draw(groups[:MOST], narrow)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, in the format of the path's ending."""
    check_figure_ending(path)
    write_whole(path, render_figure(figure, path.suffix.removeprefix(".")))


def check_figure_ending(path: Path) -> None:
    """A `UserError` unless figures can be written to a file of this name."""
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise UserError(f"{path}: the name of a figure must end in .{', .'.join(sorted(known))}")


def render_figure(figure: Figure, format: str, inline: bool = False) -> bytes:
    """A figure as the bytes of a file, the same for the same figure; `inline` in a page its text stays text."""
    content = BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
    with mpl.rc_context({**layout.STYLE, "svg.fonttype": "none" if inline else "path"}):
        figure.savefig(content, format=format, dpi=100 if inline else 200, metadata=undated, transparent=inline)
    return content.getvalue()
