"""Locks between processes; that of a killed process is free."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from protoreplay.core.errors import BusyError

LOCK_MODE = 0o600
"""Of files that are there to be locked: who may open one may hold up everybody else."""


@contextlib.contextmanager
def held_lock(path: Path, say: Callable[[str], None], busy: str, timeout: float = -1) -> Iterator[None]:
    """Hold the lock file at `path`; where another process holds it, say `busy` and wait.

    A `BusyError` after `timeout` seconds, if these are not negative.
    """
    lock = filelock.FileLock(path, mode=LOCK_MODE)
    try:
        held = lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"{busy}: waiting for it")
        try:
            held = lock.acquire(timeout=timeout)
        except filelock.Timeout:
            raise BusyError(f"{busy}: try again when it is done") from None
    with held:
        yield
