"""What a person sees while work goes on: bars on a terminal, plain lines in a log."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Told of a run as it goes; says nothing. A context manager around one or many runs."""

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop showing."""

    def begin(self, name: str, tasks: int, done: int) -> None:
        """A run of `tasks` tasks starts, `done` of them already done."""

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        """A training step of the task at `position` is done."""

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        """A task is learned and tested; `accuracy` is on everything seen so far."""

    def end(self) -> None:
        """The run is finished."""


class Lines(Progress):
    """One line a task on stderr."""

    def begin(self, name: str, tasks: int, done: int) -> None:
        """Remember the name."""
        self._name, self._tasks, self._loss = name, tasks, 0.0
        if done:
            self._say(f"continues after task {done}")

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        """Remember the loss."""
        self._loss = loss

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        """Say how it went."""
        self._say(f"task {position}/{self._tasks}  loss {self._loss:.3f}  accuracy {accuracy:.1%}  {seconds:.1f} s")

    def _say(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)


class Bars(Progress):
    """A bar of tasks and a bar of steps on the terminal."""

    def __init__(self, console: Console) -> None:
        """Lay out the columns."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = RichProgress(*columns, TextColumn("{task.fields[note]}"), console=console)
        self._tasks = self._bars.add_task("tasks", note="", visible=False)
        self._steps = self._bars.add_task("steps", note="", visible=False)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the terminal clean."""
        self._bars.update(self._steps, visible=False)
        self._bars.stop()

    def begin(self, name: str, tasks: int, done: int) -> None:
        """Set the bars to the run."""
        self._name = name
        note = f"continues after task {done}" if done else ""
        self._bars.reset(self._tasks, description=name, total=tasks, completed=done, visible=True, note=note)

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        """Move the bar of steps."""
        note = f"loss {loss:.3f}"
        self._bars.update(
            self._steps, description=f"  task {position}", total=steps, completed=step, visible=True, note=note
        )

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        """Move the bar of tasks."""
        self._bars.update(self._tasks, completed=position, note=f"accuracy {accuracy:.1%}")


def for_this_terminal() -> Progress:
    """Bars where stderr is a terminal, lines where it is not."""
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Lines()
