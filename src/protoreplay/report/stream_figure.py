"""A picture of a task stream: a few of the drawn images of each class and task."""

import numpy as np
from matplotlib.figure import Figure

from protoreplay.streams.stream import Stream

ROWS = 12
COLUMNS = 10
LABELS = 1.15
"""Width of the column of task labels, in images."""


def stream_figure(stream: Stream, title: str) -> Figure:
    """One row a task, at most twelve, the last always among them; above each image its class."""
    shown = list(range(1, len(stream) + 1))
    if len(shown) > ROWS:
        shown = [*shown[: ROWS - 1], len(stream)]
    names = [name if len(name) <= 14 else f"{name[:13]}…" for name in stream.train.class_names]
    width, height = LABELS + 1.1 * COLUMNS, 0.5 + 1.3 * len(shown)
    figure = Figure(figsize=(0.9 * width, 0.9 * height))
    # One set of axes for all images: a hundred of their own would take seconds to lay out.
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.text(0.1, 0.2, title, fontsize=11, va="center")
    for row, position in enumerate(shown):
        task = stream.task(position)
        classes = task.classes[:COLUMNS]
        top = 0.75 + 1.3 * row
        plural = "es" if len(task.classes) > 1 else ""
        label = f"task {position}\n{len(task.labels):,} images\n{len(task.classes)} class{plural}"
        axes.text(LABELS - 0.1, top + 0.5, label, fontsize=8, ha="right", va="center")
        chosen = [i for c in classes for i in np.flatnonzero(task.labels == c)[: COLUMNS // len(classes)]]
        for column, index in enumerate(chosen):
            left = LABELS + 1.1 * column
            pixels = task.images[index].movedim(0, -1).squeeze().numpy()
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, extent=(left, left + 1, top + 1, top))
            axes.text(left + 0.5, top - 0.04, names[task.labels[index]], fontsize=7, ha="center", va="bottom")
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_aspect("equal")
    return figure
