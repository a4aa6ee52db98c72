"""Which classes a method takes for which, after the last task."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from protoreplay.analysis.results import Group
from protoreplay.metrics.answer_metrics import confusion_matrix
from protoreplay.report import layout
from protoreplay.report.figures import SHADES, Drawing


def has_confusions(group: Group) -> bool:
    """Whether its first run counted its answers by class; runs of before that was done did not."""
    return bool(group.results[0].answers("confusion"))


def shares_of_answers(group: Group) -> tuple[list[int], NDArray[np.float64]]:
    """The classes, C, and of the images of each (down) the percent that were answered as each (across), over seeds."""
    classes, matrix = confusion_matrix(
        row for result in group.results for row in result.answers("confusion") if row.trained == result.config.tasks
    )
    shares: NDArray[np.float64] = 100 * matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    return classes, shares


def confusions_figure(groups: Sequence[Group], narrow: bool = False) -> Figure:
    """Of the images of a class (down), how many percent were answered as each (across): one map a method."""
    shown = [group for group in groups if has_confusions(group)]
    maps = [shares_of_answers(group) for group in shown]
    most = max(len(classes) for classes, _ in maps)
    ticks = layout.few_ticks(most)
    across = layout.PanelScale("answer", (0.5, most + 0.5), ticks)
    down = layout.PanelScale("class", (most + 0.5, 0.5), ticks)
    figure, axes, panels = layout.panel_grid([group.label for group in shown], narrow, None, across, down)
    size = panels[0].width / most
    for panel, (classes, shares) in zip(panels, maps, strict=True):
        left, right = panel.x([0.5, len(classes) + 0.5])
        top, bottom = panel.y([0.5, len(classes) + 0.5])
        axes.imshow(shares, SHADES, extent=(left, right, bottom, top), vmin=0, vmax=100, aspect="auto")
        for (row, column), value in np.ndenumerate(shares):
            if size > 0.17 and value >= 0.5:
                at = float(panel.x(column + 1)), float(panel.y(row + 1))
                ink = "#ffffff" if value < 55 else "#000000"
                axes.text(*at, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=min(8, 30 * size))
    width, height = figure.get_size_inches()
    axes.set(xlim=(0, width), ylim=(0, height))
    return figure


def _in_words(groups: Sequence[Group]) -> str:
    parts = []
    for group in (group for group in groups if has_confusions(group)):
        classes, shares = shares_of_answers(group)
        wrong = shares - np.diag(np.diag(shares))
        label, answer = np.unravel_index(int(wrong.argmax()), wrong.shape)
        parts.append(f"{group.label} takes {wrong.max():.0f} % of class {classes[label]} for {classes[answer]}")
    return f"A map for each method of its answers by class. Most often confused: {'; '.join(parts)}."


CONFUSIONS = Drawing(
    "What is taken for what",
    "Of the test images of each class (down, in the order of labels), the percent that were answered as each class "
    "(across) after the last task, all seeds together; the diagonal is the accuracy on each class.",
    confusions_figure,
    _in_words,
)
