"""What a person sees while runs go on: bars on a terminal, plain lines in a log."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from protoreplay.core.terminal import BarView, LineView, ProgressView, pick_view

QUIET_SECONDS = 10.0
"""In a log, a run that is one of many does not speak more often than this."""


MANY_FEATURES = 1_000
"""In a log, that the features of fewer images are made is no news."""


class RunProgress:
    """Told of one run as it goes; says nothing."""

    def warn(self, line: str) -> None:
        """Something is not as it should be, and the run goes on."""

    def begin(self, name: str, tasks: int, done: int) -> None:
        """A run of `tasks` tasks starts, `done` of them already done."""

    def features(self, done: int, total: int) -> None:
        """The features of `done` of the `total` images that were missing are computed."""

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        """A training step of the task at `position` is done."""

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        """A task is learned and tested; `accuracy` is on everything seen so far."""

    def end(self) -> None:
        """The run does not go on."""


class GridProgress(ProgressView):
    """The view of many runs at once; shows nothing."""

    def grid(self, runs: int, finished: int) -> None:
        """A grid of so many runs starts, some of them finished before."""

    def run(self) -> RunProgress:
        """The view of one more run."""
        return RunProgress()

    def tally(self, news: str, finished: int, failed: int, seconds_left: float) -> None:
        """A run of the grid is finished or failed, as the news say; NaN where nobody knows how long the rest takes."""


class _RunProgressLines(RunProgress):
    """One line a task."""

    def __init__(self, say: Callable[[str], None], quiet: float) -> None:
        self._print, self._quiet, self._spoke = say, quiet, 0.0

    def warn(self, line: str) -> None:
        self._print(f"warning: {line}")

    def begin(self, name: str, tasks: int, done: int) -> None:
        self._name, self._tasks, self._loss = name, tasks, 0.0
        self._spoke = time.monotonic()
        if done:
            self._say(f"continues after task {done}")

    def features(self, done: int, total: int) -> None:
        if time.monotonic() - self._spoke >= QUIET_SECONDS or (done == total and total >= MANY_FEATURES):
            self._say(f"features of {done:,} of {total:,} images are made")

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        self._loss = loss

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        if time.monotonic() - self._spoke >= self._quiet:
            self._say(f"task {position}/{self._tasks}  loss {self._loss:.3f}  accuracy {accuracy:.1%}  {seconds:.1f} s")

    def _say(self, text: str) -> None:
        self._print(f"{self._name}: {text}")
        self._spoke = time.monotonic()


class GridProgressLines(LineView, GridProgress):
    """Lines on stderr: one a task; in a grid fewer of them, and one for each run that is done."""

    _runs = 0

    def grid(self, runs: int, finished: int) -> None:
        """Say what is left."""
        self._runs = runs
        if finished < runs:
            self.say(f"{runs} runs, {finished} of them finished before")

    def run(self) -> RunProgress:
        """Lines of its own."""
        return _RunProgressLines(self.say, QUIET_SECONDS if self._runs else 0.0)

    def tally(self, news: str, finished: int, failed: int, seconds_left: float) -> None:
        """Say the news, and how far it is."""
        self.say(f"{news}; {finished} of {self._runs} runs{_more(failed, seconds_left)}")


class _RunProgressBar(RunProgress):
    """One bar of tasks, from `begin` to `end`."""

    def __init__(self, bars: RichProgress, indent: str) -> None:
        self._bars, self._indent = bars, indent
        self._bar: TaskID | None = None

    def warn(self, line: str) -> None:
        self._bars.console.print(f"warning: {line}", markup=False, highlight=False, soft_wrap=True)

    def begin(self, name: str, tasks: int, done: int) -> None:
        self.end()
        note = f"continues after task {done}" if done else ""
        self._bar = self._bars.add_task(self._indent + name, total=tasks, completed=done, note=note)

    def features(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bars.update(self._bar, note=f"features of {done:,} of {total:,} images")

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        if self._bar is not None:
            note = f"task {position}: step {step}/{steps}  loss {loss:.3f}"
            self._bars.update(self._bar, completed=position - 1, note=note)

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        if self._bar is not None:
            self._bars.update(self._bar, completed=position, note=f"accuracy {accuracy:.1%}")

    def end(self) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None


class GridProgressBars(BarView, GridProgress):
    """A bar for each run that is under way; in a grid, below a bar of all runs."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        super().__init__(console, *columns, TextColumn("{task.fields[note]}"), transient=False)
        self._all: TaskID | None = None

    def grid(self, runs: int, finished: int) -> None:
        """The bar of all runs."""
        self._all = self.bars.add_task("runs", total=runs, completed=finished, note="")

    def run(self) -> RunProgress:
        """A bar of its own."""
        return _RunProgressBar(self.bars, "" if self._all is None else "  ")

    def tally(self, news: str, finished: int, failed: int, seconds_left: float) -> None:
        """Move the bar of all runs."""
        if self._all is not None:
            note = _more(failed, seconds_left).removeprefix(", ")
            self.bars.update(self._all, completed=finished, note=note)


def for_this_terminal() -> GridProgress:
    """Bars where stderr is a terminal, lines where it is not."""
    return pick_view(GridProgressBars, GridProgressLines)


def _more(failed: int, seconds_left: float) -> str:
    return (f", {failed} failed" if failed else "") + (
        f", about {_duration(seconds_left)} left" if seconds_left >= 1 else ""
    )


def _duration(seconds: float) -> str:
    """In words as coarse as such guesses are.

    >>> [_duration(seconds) for seconds in (8.2, 200, 9000)]
    ['8 s', '3 min', '2 h 30 min']
    """
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
