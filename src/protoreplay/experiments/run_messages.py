"""What a process that does a run tells the one that shows its progress: small values, which `tell` passes on."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from protoreplay.experiments.run_progress import RunProgress

SECONDS_BETWEEN = 0.1
"""Nobody reads faster: of steps, and of the tasks of a run that takes milliseconds, only so many are told."""


@dataclass(frozen=True)
class RunWarned:
    """As `RunProgress.warn`."""

    line: str


@dataclass(frozen=True)
class RunBegan:
    """As `RunProgress.begin`."""

    name: str
    tasks: int
    done: int


@dataclass(frozen=True)
class FeaturesMade:
    """As `RunProgress.features`."""

    done: int
    total: int


@dataclass(frozen=True)
class StepDone:
    """As `RunProgress.step`."""

    position: int
    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class TaskDone:
    """As `RunProgress.task`."""

    position: int
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class RunEnded:
    """As `RunProgress.end`."""


RunMessage = RunWarned | RunBegan | FeaturesMade | StepDone | TaskDone | RunEnded


def tell(progress: RunProgress, message: RunMessage) -> None:
    """Tell a view what a message of another process says."""
    match message:
        case RunWarned(line):
            progress.warn(line)
        case RunBegan(name, tasks, done):
            progress.begin(name, tasks, done)
        case FeaturesMade(done, total):
            progress.features(done, total)
        case StepDone(position, step, steps, loss):
            progress.step(position, step, steps, loss)
        case TaskDone(position, accuracy, seconds):
            progress.task(position, accuracy, seconds)
        case RunEnded():
            progress.end()


class RunProgressSender(RunProgress):
    """Sends what it is told to another process; of steps and tasks only some, there may be thousands a second."""

    def __init__(self, send: Callable[[RunMessage], None]) -> None:
        self._send, self._sent_step, self._sent_task = send, 0.0, 0.0

    def warn(self, line: str) -> None:
        """Sent as `RunWarned`."""
        self._send(RunWarned(line))

    def begin(self, name: str, tasks: int, done: int) -> None:
        """Sent as `RunBegan`."""
        self._send(RunBegan(name, tasks, done))

    def features(self, done: int, total: int) -> None:
        """Sent as `FeaturesMade`, if the last one was a while ago, and at the end."""
        now = time.monotonic()
        if done == total or now - self._sent_step >= SECONDS_BETWEEN:
            self._sent_step = now
            self._send(FeaturesMade(done, total))

    def step(self, position: int, step: int, steps: int, loss: float) -> None:
        """Sent as `StepDone`, if the last one was a while ago."""
        now = time.monotonic()
        if now - self._sent_step >= SECONDS_BETWEEN:
            self._sent_step = now
            self._send(StepDone(position, step, steps, loss))

    def task(self, position: int, accuracy: float, seconds: float) -> None:
        """Sent as `TaskDone`, if the last one was a while ago."""
        now = time.monotonic()
        if now - self._sent_task >= SECONDS_BETWEEN:
            self._sent_task = now
            self._send(TaskDone(position, accuracy, seconds))

    def end(self) -> None:
        """Sent as `RunEnded`."""
        self._send(RunEnded())
