"""Losses and accuracies for TensorBoard, in the folder `tensorboard` beside the run's other files."""

from pathlib import Path

from protoreplay.core.errors import UserError
from protoreplay.experiments.run_progress import RunProgress

STEPS_PER_TASK = 1000
"""Tasks differ in their number of training steps; on the page's axis each has this many."""


class TensorBoard(RunProgress):
    """Writes what it is told, and tells another view."""

    def __init__(self, progress: RunProgress, path: Path) -> None:
        """Ready to write into `path/tensorboard` from `begin` on; a `UserError` where the package is missing."""
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise UserError(
                "--log tensorboard needs the package tensorboard: pip install 'protoreplay[tensorboard]'"
            ) from None
        self._open, self._progress, self._path = SummaryWriter, progress, path / "tensorboard"
        self._last = -1

    def warn(self, line: str) -> None:
        """Say it."""
        self._progress.warn(line)

    def begin(self, name: str, tasks: int, done: int) -> None:
        """Open the files; what an interrupted attempt wrote beyond its last whole task is not shown."""
        self._last = done * STEPS_PER_TASK
        self._writer = self._open(str(self._path), purge_step=self._last + 1)
        self._progress.begin(name, tasks, done)

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        """Write the loss, unless the axis has no room for one more."""
        at = (position - 1) * STEPS_PER_TASK + step * STEPS_PER_TASK // steps
        if at > self._last:
            self._writer.add_scalar("loss", loss, at)
            self._last = at
        self._progress.step(position, step, steps, loss)

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        """Write the accuracy on everything seen so far."""
        self._writer.add_scalar("accuracy", accuracy, position * STEPS_PER_TASK)
        self._progress.task(position, accuracy, seconds)

    def end(self) -> None:
        """Close the files."""
        if self._last >= 0:
            self._writer.close()
        self._progress.end()
