"""An amount, of memory for one, that all threads of a process share."""

import contextlib
import threading
from collections.abc import Iterator


class SharedBudget:
    """Gives parts of `total`, first come first served: who wants more than is free waits for others to give back.

    Args:
        total: in whatever unit; who wants more than all of it gets all of it, alone.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = total
        self._turn = threading.Lock()
        self._returned = threading.Condition()

    @contextlib.contextmanager
    def held(self, amount: int, timeout: float = -1) -> Iterator[None]:
        """Hold a part; a `TimeoutError` if it is not free within so many seconds."""
        amount = self.take(amount, timeout)
        try:
            yield
        finally:
            self.give_back(amount)

    def take(self, amount: int, timeout: float = -1) -> int:
        """As `held`, for who gives back elsewhere: what was taken."""
        amount = min(amount, self.total)
        # In turns: a large part would never be free while small ones come and go.
        if not self._turn.acquire(timeout=timeout):
            raise TimeoutError
        try:
            with self._returned:
                if not self._returned.wait_for(lambda: self._free >= amount, None if timeout < 0 else timeout):
                    raise TimeoutError
                self._free -= amount
        finally:
            self._turn.release()
        return amount

    def give_back(self, amount: int) -> None:
        """What `take` said."""
        with self._returned:
            self._free += amount
            self._returned.notify_all()
