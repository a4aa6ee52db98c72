"""One run: learn task after task, test on all tasks seen, survive a kill at any moment."""

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import threadpoolctl
import torch
from torch import Tensor

from protoreplay.core.errors import UserError, in_one_line
from protoreplay.experiments.answer_tally import AnswerTally
from protoreplay.experiments.checkpoint import Checkpoint, DamagedCheckpointError, check_state
from protoreplay.experiments.run_config import RunConfig
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.snapshots import SnapshotWriter
from protoreplay.experiments.spec import RunSpec
from protoreplay.experiments.tensorboard import TensorBoard
from protoreplay.methods.base import Method
from protoreplay.metrics.accuracy import Count, accuracies
from protoreplay.streams.embedded import EmbeddedStream
from protoreplay.streams.stream import Stream

AnswerCallback = Callable[[int, Tensor, Tensor], None]
"""Called with the task tested on, the probabilities of the classes seen, N x C, and the labels, int64, N."""

LOSSES_PER_TASK = 20
LOGS = {"tensorboard": TensorBoard}

CHECKPOINT_SECONDS = 0.5
"""Tasks that take less together are written down together: a kill loses no more, and a run of milliseconds does not
wait for the disk after each of its tasks."""

FEATURES_KEPT = 1 << 26
"""Numbers of test features at most that are kept from task to task: 256 MiB."""


class EmbeddedTestSets:
    """The test sets of a stream as methods meet them: embedded once where a method's features never change."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}
        self._numbers = 0

    def get(self, method: Method[Any], position: int) -> tuple[Tensor, Tensor]:
        """What `method.embed` makes of the test images of the task at `position`, and their labels (int64, N)."""
        if position in self._kept:
            return self._kept[position]
        images, labels = self._stream.test_set(position)
        features = method.embed(images)
        if method.frozen and self._numbers + features.numel() <= FEATURES_KEPT:
            self._numbers += features.numel()
            self._kept[position] = features, labels
        return features, labels


def evaluate(
    method: Method[Any],
    stream: Stream,
    trained: int,
    tests: EmbeddedTestSets | None = None,
    on_answers: AnswerCallback | None = None,
) -> list[Count]:
    """Test on every task up to `trained`, the last one learned.

    `tests` are the stream's, met by this method alone; given again after the next task, they save time.
    `on_answers` is told every answer. A loop of one's own computes with as many threads as PyTorch takes; inside
    `with one_thread():` its numbers are those of `bench` to the bit.
    """
    tests = tests or EmbeddedTestSets(stream)
    counts, answer = [], method.predictor()
    for tested in range(1, trained + 1):
        features, labels = tests.get(method, tested)
        probabilities = answer(features)
        correct = int((torch.tensor(method.classes)[probabilities.argmax(1)] == labels).sum())
        if on_answers:
            on_answers(tested, probabilities, labels)
        counts.append(Count(trained, tested, len(labels), correct))
    return counts


def execute(spec: RunSpec, path: Path, progress: RunProgress | None = None, log: str | None = None) -> list[Count]:
    """Do the run in the folder `path`, or what is left of it, and return its counts; `log` is one of `LOGS`.

    A finished run is not repeated, unless its source code has changed and `spec.other_source` says so. An unfinished
    one continues after the last recorded task with the same result as without the interruption. If versions or source
    code have changed since its start, it starts over, so that a result has one origin.
    """
    progress = logged(progress or RunProgress(), path, log)
    stream = spec.stream()
    folder = RunFolder(path)
    config = spec.config(stream)
    folder.refuse_other_run(config, spec.defaults())
    if folder.redone().finished() and not folder.finished():  # killed while it took the place of the old one
        with folder.locked():
            folder.take_redone()
    if spec.other_source != "keep" and spec.other_code(folder):
        return _again(spec, folder, progress)
    snapshots = SnapshotWriter(folder, stream) if spec.keep else None
    if folder.finished():
        if snapshots:
            snapshots.require_all()
        folder.clean()  # it may have been killed between its last result and its end
        return folder.counts()
    shots = stream.shots()
    with folder.locked(), one_thread(), _ended(progress):
        if folder.finished():  # by another process, between our look at it and our lock
            folder.clean()
            return folder.counts()
        if not _begun_alike(folder, config, shots):
            folder.start(config, shots)
        method, saved = _taken_up(spec, stream, folder, progress)
        if saved is None or (snapshots and not snapshots.whole(saved.position)):
            folder.start(config, shots)
            method, saved = spec.build(stream), folder.resume()
        done, counts, answers = saved.position, saved.counts, saved.answers
        tally = AnswerTally(answers)
        tests = EmbeddedTestSets(stream)
        progress.begin(spec.name, len(stream), done)
        if isinstance(stream, EmbeddedStream):
            stream.prepare(progress.features)
        events, written = list[dict[str, Any]](), time.monotonic()
        for position in range(done + 1, len(stream) + 1):
            added, event = _one_task(method, stream, tests, position, progress, counts, snapshots, tally)
            counts, events = counts + added, [*events, event]
            last = position == len(stream)
            if not last and not snapshots and time.monotonic() - written < CHECKPOINT_SECONDS:
                continue
            folder.append_events(events)
            if not last:
                folder.save_checkpoint(Checkpoint(position, counts, method.state(), tally.to_text()))
            else:
                folder.write_answers(
                    {"confusion": tally.confusion, "calibration": tally.calibration, "top5": tally.top}
                )
            folder.write_counts(counts)
            events, written = [], time.monotonic()
        folder.clean()
    return counts


def _begun_alike(folder: RunFolder, config: RunConfig, shots: list[dict[str, Any]]) -> bool:
    """Whether the folder holds this run, by the same versions and of the same draw."""
    try:
        return folder.exists() and folder.config().computed_alike(config) and bool(folder.shots() == shots)
    except UserError:
        return False  # a draw that cannot be read is not the same


def _taken_up(
    spec: RunSpec, stream: Stream, folder: RunFolder, progress: RunProgress
) -> tuple[Method[Any], Checkpoint | None]:
    """The method as it was after the last task written down, and where that was; None where that is damaged."""
    method = spec.build(stream)
    try:
        saved = folder.resume()
        if saved.position:
            AnswerTally(saved.answers)
            check_state(method, saved.state, str(folder.checkpoint))
            method.restore(saved.state)
            if not saved.answers or saved.position >= len(stream):
                raise ValueError("it is not of this run")
        return method, saved
    except DamagedCheckpointError as error:
        progress.warn(f"{error}: the run starts over")
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError) as error:
        progress.warn(f"{folder.checkpoint} is damaged ({in_one_line(error)}): the run starts over")
    return method, None


def _again(spec: RunSpec, folder: RunFolder, progress: RunProgress) -> list[Count]:
    """Repeat a finished run whose source code has changed; the new run replaces the old one when it is finished."""
    if spec.other_source == "refuse":
        raise other_source_error([(spec.name, spec.other_code(folder))])
    with folder.locked():
        if spec.other_code(folder):  # and not redone by another process, between our look at it and our lock
            if spec.other_code(folder.redone()):
                folder.drop_redone()
            execute(replace(spec, other_source="keep"), folder.redone().path, progress)
            folder.take_redone()
    return folder.counts()


def other_source_error(runs: Sequence[tuple[str, list[str]]]) -> UserError:
    """The error for finished runs, by name, with the parts whose source code has changed."""
    return UserError(f"{other_source_text(runs)}: --redo repeats them, --keep keeps them as they are")


def other_source_text(runs: Sequence[tuple[str, list[str]]]) -> str:
    """The same for people, in one line.

    >>> other_source_text([("sgd seed 0", ["method"]), ("sgd seed 1", ["method"])])
    'the source code of 2 finished runs has changed (sgd seed 0 and 1 more: method)'
    """
    number = "1 finished run" if len(runs) == 1 else f"{len(runs)} finished runs"
    parts = ", ".join(sorted({part for _, parts in runs for part in parts}))
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return f"the source code of {number} has changed ({runs[0][0]}{more}: {parts})"


def logged(progress: RunProgress, path: Path, log: str | None) -> RunProgress:
    """`progress`, which also writes the log that is asked for; a `UserError` where a package for it is missing."""
    return LOGS[log](progress, path) if log else progress


@contextlib.contextmanager
def _ended(progress: RunProgress) -> Iterator[None]:
    try:
        yield
    finally:
        progress.end()


def _one_task(
    method: Method[Any],
    stream: Stream,
    tests: EmbeddedTestSets,
    position: int,
    progress: RunProgress,
    before: list[Count],
    snapshots: SnapshotWriter | None,
    tally: AnswerTally,
) -> tuple[list[Count], dict[str, Any]]:
    """The counts after one more task, and its event."""
    losses: list[float] = []

    def report(step: int, steps: int, loss: float) -> None:
        if step * LOSSES_PER_TASK // steps > (step - 1) * LOSSES_PER_TASK // steps:
            losses.append(round(loss, 6))
        progress.step(position, step, steps, loss)

    def listen(tested: int, probabilities: Tensor, labels: Tensor) -> None:
        tally.add(position, method.classes, tested, probabilities, labels)
        if snapshots:
            snapshots.add_answers(tested, probabilities, labels)

    started = time.perf_counter()
    method.learn(stream.task(position), report)
    learned = time.perf_counter()
    counts = evaluate(method, stream, position, tests, listen)
    tally.end_task(position)
    tested = time.perf_counter()
    if snapshots:
        snapshots.write(method, lambda tested: tests.get(method, tested), position)
    accuracy = accuracies([*before, *counts])[-1]
    event = {
        "task": position,
        "time": time.time(),
        "learn_seconds": round(learned - started, 4),
        "test_seconds": round(tested - learned, 4),
        "accuracy": accuracy,
        "losses": losses,
        "kept": [dataclasses.asdict(item) for item in method.ledger()],
    }
    progress.task(position, accuracy, tested - started)
    return counts, event


@functools.cache
def _blas(*loaded: bool) -> threadpoolctl.ThreadpoolController:
    """Of NumPy, and of what else was `loaded`: looked for once, because that takes as long as a short run."""
    return threadpoolctl.ThreadpoolController()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums depend on how many threads share them: with one, a result does not depend on where it was computed.

    Numbers too small for full precision are taken as 0: moments of an optimiser that fade away for thousands of steps
    become such numbers, and arithmetic with them takes several times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        with _blas("scipy.linalg" in sys.modules, "sklearn" in sys.modules).limit(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
