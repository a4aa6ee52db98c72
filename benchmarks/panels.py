"""Why grids of panels are drawn by hand in one set of axes: the same figures with matplotlib's own axes, 24 methods.

Processor time to draw a figure and write it as SVG, the best of several, wide and narrow.

    python benchmarks/panels.py
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from protoreplay.analysis.results import Group, Result
from protoreplay.experiments.run_config import NamedSettings, RunConfig
from protoreplay.metrics.accuracy import Count
from protoreplay.report import figures, layout

METHODS, SEEDS, TASKS, TRIES = 24, 3, 20, 3
Engine = Literal["constrained"] | None


def made_up(method: int) -> Group:
    results, nothing = [], NamedSettings(name="", settings={})
    for seed in range(SEEDS):
        config = RunConfig(
            protocol=nothing,
            method=nothing,
            seed=seed,
            evaluation="test",
            known_classes=tuple(range(2, TASKS + 2)),
            versions={},
        )
        counts = [
            Count(i, j, 100, max(0, 95 - 3 * method - 4 * (i - j) - seed))
            for i in range(1, TASKS + 1)
            for j in range(1, i + 1)
        ]
        results.append(Result(config, counts, 1.0, 1, 1))
    return Group("split-digits", f"method-{method}", results)


def subplots(groups: Sequence[Group], narrow: bool, height: float | None, engine: Engine) -> tuple[Figure, list[Axes]]:
    columns, width = (2, 4.2) if narrow else (5, 9.0)
    rows, tall = math.ceil(len(groups) / columns), height or width / columns - 0.4
    figure = Figure(figsize=(width, rows * (tall + 0.4) + 0.7), layout=engine)
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for rest in axes[len(groups) :]:
        rest.remove()
    for one, group in zip(axes, groups, strict=False):
        one.set_title(group.label, loc="left", fontsize=8)
    return figure, axes[: len(groups)]


def curves(groups: Sequence[Group], narrow: bool, engine: Engine) -> Figure:
    figure, axes = subplots(groups, narrow, 1.25, engine)
    tasks = np.arange(1, TASKS + 1)
    behind = [np.column_stack([tasks, group.accuracy.mean]) for group in groups]
    for one, group in zip(axes, groups, strict=True):
        curve = group.accuracy
        one.add_collection(LineCollection(behind, colors="#808080", alpha=0.3, linewidths=0.6), autolim=False)
        one.fill_between(tasks, curve.low, curve.high, alpha=0.18, linewidth=0)
        one.plot(tasks, curve.mean, marker="o", markevery=2, markersize=4)
        one.plot(tasks, group.chance(), **figures.CHANCE)
        one.text(1.02, curve.mean[-1], f"{curve.mean[-1]:.0f}", transform=one.get_yaxis_transform(), va="center")
        one.grid(axis="y", color="#808080", alpha=0.2, linewidth=0.6)
    axes[0].set(ylim=(0, 102), xticks=layout.few_ticks(TASKS), yticks=(0, 50, 100))
    return figure


def matrices(groups: Sequence[Group], narrow: bool, engine: Engine) -> Figure:
    figure, axes = subplots(groups, narrow, None, engine)
    for one, group in zip(axes, groups, strict=True):
        shown = one.imshow(group.matrix, figures.SHADES, vmin=0, vmax=100)
    figure.colorbar(shown, ax=axes, location="top", shrink=0.2)
    return figure


def seconds(draw: Callable[[], Figure]) -> float:
    tries = []
    for _ in range(TRIES):
        started = time.process_time()
        with mpl.rc_context(layout.STYLE):
            figure = draw()
        figures.render_figure(figure, "svg", inline=True)
        tries.append(time.process_time() - started)
    return min(tries)


def main() -> None:
    groups = [made_up(method) for method in range(METHODS)]
    for name, drawing, other in (("curves", "accuracy", curves), ("matrices", "matrix", matrices)):
        for narrow in (False, True):
            ours = seconds(partial(figures.draw_figure, figures.FIGURES[drawing], groups, narrow))
            bare = seconds(partial(other, groups, narrow, None))
            laid_out = seconds(partial(other, groups, narrow, "constrained"))
            size = "narrow" if narrow else "wide"
            print(f"{name}, {size}: {ours:.2f} s; subplots {bare:.2f} s; laid out {laid_out:.2f} s", flush=True)


if __name__ == "__main__":
    main()
