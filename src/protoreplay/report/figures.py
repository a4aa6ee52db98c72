"""Figures for the page and for papers."""

import statistics
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from protoreplay.errors import UserError
from protoreplay.files import write_whole
from protoreplay.report.results import Group

# Okabe and Ito's colours without yellow, for colour-blind readers; markers and dashes are for print in grey.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":")


def accuracy_curves(groups: list[Group]) -> Figure:
    """Accuracy on everything seen after each task, mean over seeds with one standard deviation as error bar."""
    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        for number, group in enumerate(groups):
            curves = list(zip(*group.curves(), strict=True))
            positions = range(1, len(curves) + 1)
            # A small shift keeps the error bars of different methods from hiding each other.
            shift = 0.06 * (number - (len(groups) - 1) / 2)
            axes.errorbar(
                [position + shift for position in positions],
                [statistics.mean(values) for values in curves],
                [statistics.stdev(values) if len(values) > 1 else 0 for values in curves],
                label=group.label,
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
                markersize=5,
                linewidth=1.6,
                elinewidth=1,
                capsize=2.5,
            )
        chance = groups[0].chance()
        axes.plot(range(1, len(chance) + 1), chance, color="0.5", linestyle=(0, (1, 2)), label="chance")
        axes.set_xticks(range(1, len(chance) + 1) if len(chance) <= 20 else range(0, len(chance) + 1, 10))
        axes.set_ylim(0, 103)
        axes.set_xlabel("tasks learned")
        axes.set_ylabel("accuracy on everything seen (%)")
        seeds = sorted({len(group.results) for group in groups})
        axes.set_title(f"{groups[0].protocol}, {' or '.join(map(str, seeds))} seed{'s' * (seeds != [1])}", loc="left")
        axes.grid(axis="y", color="0.9")
        chance_line, *methods = axes.get_legend_handles_labels()[0]
        figure.legend(handles=[*methods, chance_line], loc="outside right upper", frameon=False)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, in the format of the path's ending."""
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise UserError(f"{path}: a figure's name ends in one of .{', .'.join(sorted(known))}")
    write_whole(path, render(figure, path.suffix.removeprefix(".")))


def render(figure: Figure, format: str) -> bytes:
    """A figure as the bytes of a file."""
    content = BytesIO()
    figure.savefig(content, format=format, dpi=160)
    return content.getvalue()
