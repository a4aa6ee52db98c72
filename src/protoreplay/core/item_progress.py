"""What a person sees while a dataset is got or imported: a bar on a terminal, plain lines in a log."""

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from protoreplay.core.terminal import BarView, LineView, View, choose


class ItemProgress(View):
    """Told of the work as it goes; says nothing."""

    def begin(self, what: str, total: int = 0) -> None:
        """A piece of work of `total` units starts; 0 where nobody knows."""

    def advance(self, amount: int) -> None:
        """So many more units are done."""


class ItemProgressLines(LineView, ItemProgress):
    """ItemProgressLines on stderr: one when a piece of work starts, one at each quarter of it."""

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
        """Lay out the columns."""
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


def for_this_terminal() -> ItemProgress:
    """A bar where stderr is a terminal, lines where it is not."""
    return choose(ItemProgressBar, ItemProgressLines)
