"""Who may be at work, and who may wait for it: every request that waits takes one of the server's forty threads."""

import contextlib
import threading
from collections.abc import Iterator

from protoreplay.core.errors import BusyError


class TurnQueue:
    """Lets a few be at work at a time, and a few more wait for them.

    Args:
        at_once: at work.
        most: at work or waiting; for one more there is a `BusyError` at once.
        what: they are, for people.
    """

    def __init__(self, at_once: int, most: int, what: str) -> None:
        self._at_work, self._all = threading.BoundedSemaphore(at_once), threading.BoundedSemaphore(most)
        self._refusal = f"{most} {what} are at work or wait for each other: try again in a moment"

    @contextlib.contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        """Be at work, after a wait of so many seconds at most: then there is a `BusyError`."""
        if not self._all.acquire(blocking=False):
            raise BusyError(self._refusal)
        try:
            if not self._at_work.acquire(timeout=seconds):
                raise BusyError("others take long: try again in a moment")
            try:
                yield
            finally:
                self._at_work.release()
        finally:
            self._all.release()
