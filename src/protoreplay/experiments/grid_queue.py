"""What is left of a grid of runs: handed out run by run, whoever does them."""

import statistics
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from protoreplay.core.errors import in_one_line
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_folder import RunBusyError, RunFolder, seconds_of
from protoreplay.experiments.run_progress import GridProgress, RunProgress
from protoreplay.experiments.spec import RunSpec, file_name

ATTEMPTS = 3
"""How often a run may take the process that does it down before it counts as failed."""
LOOK_AGAIN_SECONDS = 0.5
"""How often a run that another command is at work on is looked at."""


def run_path(root: Path, spec: RunSpec) -> Path:
    """Where a run of a grid lives: `root/variant/seed-N`."""
    return root / spec.variant / f"seed-{spec.seed}"


def default_runs_folder(protocol: str, purpose: Literal["", "tune", "ablations", "ladder"] = "") -> Path:
    """Where the runs of a protocol live unless the user says otherwise; those of some purposes live apart."""
    return Path("runs") / purpose / file_name(protocol)


@dataclass(frozen=True)
class RunOutcome:
    """What came of an attempt at a run: `busy` if another command is at it, `lost` with the process that did it."""

    kind: Literal["finished", "busy", "failed", "lost"]
    error: str = ""


@dataclass(frozen=True)
class FailedRun:
    """A run that failed, and its error in one line; the whole of it is in the run's `error.txt`."""

    spec: RunSpec
    error: str


def attempt_run(
    spec: RunSpec | Callable[[], RunSpec], path: Path, progress: RunProgress, log: str | None
) -> RunOutcome:
    """Do a run, or what a call says it is, whatever comes of it; an error is recorded in the run's folder."""
    try:
        execute(spec() if callable(spec) else spec, path, progress, log)
    except RunBusyError:
        return RunOutcome("busy")
    except Exception as error:
        RunFolder(path).fail(traceback.format_exc())
        return failed_outcome(error)
    return RunOutcome("finished")


def failed_outcome(error: BaseException) -> RunOutcome:
    """The outcome of a run that raised `error`, in one line."""
    return RunOutcome("failed", in_one_line(error))


class GridQueue:
    """The runs of a grid that are not finished; each is a number, its place in `specs`."""

    def __init__(self, specs: list[RunSpec], root: Path, progress: GridProgress, log: str | None = None) -> None:
        """Look which runs are finished; `log` is for `execute`."""
        self.specs, self.root, self.progress, self.log = specs, root, progress, log
        self.failures: list[FailedRun] = []
        self._ready, self._busy = deque[int](), list[int]()
        self._running: set[int] = set()
        self._finished, self._most_at_once, self._look_at = 0, 1, 0.0
        self._seconds: dict[str, list[float]] = {}
        self._lost: dict[int, int] = {}
        for number in range(len(specs)):
            if specs[number].done_in(self.folder(number)):
                self.folder(number).clean()  # it may have been killed between its last result and its end
                self._count(number)
            else:
                self._ready.append(number)
        progress.grid(len(specs), self._finished)

    def folder(self, number: int) -> RunFolder:
        """Of a run."""
        return RunFolder(run_path(self.root, self.specs[number]))

    def take(self) -> int | None:
        """A run to attempt now, or None; what another command has finished meanwhile is passed over."""
        if not self._ready and self._busy and time.monotonic() >= self._look_at:
            self._ready, self._busy = deque(self._busy), []
        while self._ready:
            number = self._ready.popleft()
            if not self.specs[number].done_in(self.folder(number)):
                self._running.add(number)
                self._most_at_once = max(self._most_at_once, len(self._running))
                return number
            self._finish(number)
        return None

    def left(self) -> bool:
        """Whether there are runs to be taken, now or later."""
        return bool(self._ready or self._busy)

    def settle(self, number: int, outcome: RunOutcome) -> None:
        """An attempt at a run that was taken is over."""
        self._running.remove(number)
        match outcome.kind:
            case "finished":
                self._finish(number)
            case "busy":
                self._busy.append(number)
                self._look_at = time.monotonic() + LOOK_AGAIN_SECONDS
            case "lost" if (lost := self._lost.get(number, 0) + 1) < ATTEMPTS:
                self._lost[number] = lost
                self._ready.appendleft(number)
                self.progress.say(f"{self.specs[number].name}: the process that did it died{outcome.error}; once more")
            case "lost":
                error = f"the process that did it died {ATTEMPTS} times{outcome.error}"
                self.folder(number).fail(f"{error}\n")
                self._fail(number, error)
            case "failed":
                self._fail(number, outcome.error)

    def _count(self, number: int) -> None:
        seconds = seconds_of(self.folder(number).events())
        self._seconds.setdefault(self.specs[number].variant, []).append(seconds)
        self._finished += 1

    def _finish(self, number: int) -> None:
        self._count(number)
        self._tell(f"{self.specs[number].name} is finished")

    def _fail(self, number: int, error: str) -> None:
        self.failures.append(FailedRun(self.specs[number], error))
        self._tell(f"{self.specs[number].name} failed")

    def _tell(self, news: str) -> None:
        self.progress.tally(news, self._finished, len(self.failures), self._seconds_left())

    def _seconds_left(self) -> float:
        """By what runs of the same variant took, where one is finished, and by the mean of all where none is."""
        if not self._seconds:
            return float("nan")
        means = {variant: statistics.mean(seconds) for variant, seconds in self._seconds.items()}
        usual = statistics.mean(means.values())
        left = (self.specs[number].variant for number in (*self._ready, *self._busy, *self._running))
        return sum(means.get(variant, usual) for variant in left) / self._most_at_once
