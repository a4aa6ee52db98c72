"""Runs cases of a target, each with a limit of time and memory: an answer may come, or an error in one line."""

import contextlib
import random
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from protoreplay.core.errors import UserError

MEMORY = Path("/dev/shm")
SECONDS = 10
MEGABYTES = 1000


class TooSlowError(BaseException):
    """No case may take so long; not an `Exception`, so that nobody catches it."""


@dataclass
class FuzzTally:
    """How many cases of a target were tried, and what came of them."""

    tried: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def held(self) -> int:
        return self.tried - len(self.failures)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_case(name: str, case: Callable[[random.Random], None], seed: int, tally: FuzzTally) -> None:
    """One case; `seed` makes it the same again."""
    tally.tried += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case(random.Random(f"{name} {seed}"))
    except UserError as error:
        tally.refused += 1
        if not str(error) or "\n" in str(error):
            tally.failures.append(f"{name} {seed}: an error that is not one line: {error!r}")
    except OSError as error:
        tally.refused += 1
        if not error.strerror:
            tally.failures.append(f"{name} {seed}: {error!r}")
    except TooSlowError:
        tally.failures.append(f"{name} {seed}: more than {SECONDS} s")
    except Exception:
        tally.failures.append(f"{name} {seed}: {traceback.format_exc()}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1000
    if grown > MEGABYTES:
        tally.failures.append(f"{name} {seed}: {grown:.0f} MB more")
