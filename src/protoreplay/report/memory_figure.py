"""A figure of what methods keep as tasks go by."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from protoreplay.analysis.memory_ledger import MethodMemory
from protoreplay.report import layout


def memory_figure(measured: Sequence[MethodMemory]) -> Figure:
    """All bytes kept after each task, a line a method, the network included."""
    with mpl.rc_context(layout.STYLE):
        longest = max(len(one.method) for one in measured)
        width, height = 8.8, max(4.1, 0.9 + 0.17 * len(measured))
        room = layout.GUTTER + layout.LETTER * longest + 0.1
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0.85 / width, 0.5 / height, 1 - (0.85 + room) / width, 1 - 0.65 / height))
        tasks = len(measured[0].growth)
        for number, one in enumerate(measured):
            axes.plot(
                range(1, tasks + 1),
                one.growth,
                color=layout.colour(number),
                linestyle=layout.DASHES[number % len(layout.DASHES)],
                marker=layout.MARKERS[number % len(layout.MARKERS)],
                markersize=4,
                markevery=max(1, tasks // 10),
            )
        sizes = [size for one in measured for size in one.growth]
        layout.task_axis(axes, tasks)
        axes.set_ylim(min(sizes) / 1.3, max(sizes) * 1.3)
        if max(sizes) > 8 * min(sizes):
            axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: layout.byte_text(value))
        axes.minorticks_off()
        axes.set_xlabel("tasks learned")
        axes.set_ylabel("kept, network included")
        ends = [(tasks, one.growth[-1]) for one in measured]
        colours = [layout.colour(number) for number in range(len(measured))]
        layout.label_right(axes, ends, [one.method for one in measured], colours)
        return figure
