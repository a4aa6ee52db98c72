"""What a person sees of long work: bars on a terminal, plain lines in a log."""

import importlib.util
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

V = TypeVar("V", bound="ProgressView")


class ProgressView:
    """Shows nothing. A context manager around all of the work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def say(self, text: str) -> None:
        """One line that stays."""


class LineView(ProgressView):
    """Lines on stderr."""

    def say(self, text: str) -> None:
        """Print a line on stderr."""
        print(text, file=sys.stderr, flush=True)


class BarView(ProgressView):
    """Bars on the terminal, with what is said above them; `transient` ones are gone at the end."""

    def __init__(self, console: Console, *columns: ProgressColumn, transient: bool) -> None:
        # What is printed meanwhile goes above the bars, but only on a terminal: rich would take it out of a file, too.
        shown = sys.stdout.isatty()
        self.bars = RichProgress(*columns, console=console, transient=transient, redirect_stdout=shown)

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bars.stop()

    def say(self, text: str) -> None:
        """Print it above the bars."""
        self.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


def pick_view(bars: Callable[[Console], V], lines: Callable[[], V]) -> V:
    """`bars` where stderr is a terminal, or in a notebook with ipywidgets; `lines` where it is neither."""
    console = Console(stderr=True)
    if console.is_jupyter:
        return bars(Console()) if importlib.util.find_spec("ipywidgets") else lines()
    return bars(console) if console.is_terminal else lines()


class ItemProgress(ProgressView):
    """Told of work on many items as it goes, such as photos, or the bytes of a download; shows nothing."""

    def begin(self, what: str, total: int = 0) -> None:
        """A piece of work of `total` units starts; 0 where nobody knows."""

    def advance(self, amount: int) -> None:
        """`amount` more units are done."""


class ItemProgressLines(LineView, ItemProgress):
    """Lines on stderr: one when a piece of work starts, one at each quarter of it."""

    def begin(self, what: str, total: int = 0) -> None:
        """Say what starts."""
        self._what, self._total, self._done = what, total, 0
        self.say(what)

    def advance(self, amount: int) -> None:
        """Say so when another quarter is done."""
        before, self._done = self._done, self._done + amount
        if self._total and before * 4 // self._total < (quarters := min(self._done * 4 // self._total, 4)):
            self.say(f"{self._what}: {25 * quarters} %")


class ItemProgressBar(BarView, ItemProgress):
    """One bar on the terminal."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        super().__init__(console, *columns, transient=True)
        self._bar: TaskID | None = None

    def begin(self, what: str, total: int = 0) -> None:
        """A new bar in place of the last; it pulses where the total is not known."""
        if self._bar is not None:
            self.bars.remove_task(self._bar)
        self._bar = self.bars.add_task(what, total=total or None)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self.bars.advance(self._bar, amount)


def item_progress() -> ItemProgress:
    """A bar where stderr is a terminal, lines where it is not."""
    return pick_view(ItemProgressBar, ItemProgressLines)
