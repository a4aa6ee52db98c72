"""What a person sees while a dataset is got or imported: a bar on a terminal, plain lines in a log."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Told of the work as it goes; says nothing. A context manager around all of it."""

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop showing."""

    def say(self, text: str) -> None:
        """One line that stays."""

    def begin(self, what: str, total: int = 0) -> None:
        """A piece of work of `total` units starts; 0 where nobody knows."""

    def advance(self, amount: int) -> None:
        """So many more units are done."""


class Lines(Progress):
    """Lines on stderr: one when a piece of work starts, one at each quarter of it."""

    def say(self, text: str) -> None:
        """Print it."""
        print(text, file=sys.stderr, flush=True)

    def begin(self, what: str, total: int = 0) -> None:
        """Say what starts."""
        self._what, self._total, self._done = what, total, 0
        self.say(what)

    def advance(self, amount: int) -> None:
        """Say so when another quarter is done."""
        before, self._done = self._done, self._done + amount
        if self._total and before * 4 // self._total < (quarters := min(self._done * 4 // self._total, 4)):
            self.say(f"{self._what}: {25 * quarters} %")


class Bar(Progress):
    """One bar on the terminal."""

    def __init__(self, console: Console) -> None:
        """Lay out the columns."""
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bars = RichProgress(*columns, console=console, transient=True)
        self._bar: TaskID | None = None

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the terminal clean."""
        self._bars.stop()

    def say(self, text: str) -> None:
        """Print it above the bar."""
        self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, what: str, total: int = 0) -> None:
        """A new bar in place of the last; it pulses where the total is not known."""
        if self._bar is not None:
            self._bars.remove_task(self._bar)
        self._bar = self._bars.add_task(what, total=total or None)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bars.advance(self._bar, amount)


def for_this_terminal() -> Progress:
    """A bar where stderr is a terminal, lines where it is not."""
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines()
