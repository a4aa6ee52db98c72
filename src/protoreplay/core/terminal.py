"""What all views of long work have in common: bars on a terminal, plain lines in a log."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import ProgressColumn

V = TypeVar("V", bound="View")


class View:
    """Shows nothing. A context manager around all of the work."""

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop showing."""

    def say(self, text: str) -> None:
        """One line that stays."""


class LineView(View):
    """Lines on stderr."""

    def say(self, text: str) -> None:
        """Print it."""
        print(text, file=sys.stderr, flush=True)


class BarView(View):
    """Bars on the terminal, with what is said above them."""

    def __init__(self, console: Console, *columns: ProgressColumn, transient: bool) -> None:
        """Lay out the columns; `transient` bars are gone at the end."""
        self.bars = RichProgress(*columns, console=console, transient=transient)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the terminal clean."""
        self.bars.stop()

    def say(self, text: str) -> None:
        """Print it above the bars."""
        self.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


def choose(bars: Callable[[Console], V], lines: Callable[[], V]) -> V:
    """`bars` where stderr is a terminal, `lines` where it is not."""
    console = Console(stderr=True)
    return bars(console) if console.is_terminal else lines()
