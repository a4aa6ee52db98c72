"""The engine of local worker processes.

A worker opens data itself, by memory map, and does many runs. Each run computes with one thread wherever it is done,
so a worker's share of the machine is one thread. A worker that dies takes nothing with it: the run's lock is free
again, and the run continues from its last whole task in another worker. Workers end with the process that started
them, whatever ends it.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from protoreplay.core.errors import UserError
from protoreplay.core.registry import ForeignCode, foreign_code, install
from protoreplay.experiments.grid_queue import LOOK_AGAIN_SECONDS, GridQueue, RunOutcome, attempt_run, run_path
from protoreplay.experiments.run_messages import RunMessage, RunProgressSender, tell
from protoreplay.experiments.spec import RunSpec
from protoreplay.streams.protocols import get_protocol

# Not forked: PyTorch's threads do not survive a fork.
SPAWN = multiprocessing.get_context("spawn")


def in_workers(queue: GridQueue, jobs: int) -> None:
    """Up to `jobs` runs at a time, each in a worker process."""
    workers: list[_Worker] = []
    code = foreign_code() if queue.left() else ForeignCode()
    try:
        while queue.left() or any(worker.number is not None for worker in workers):
            for worker in workers:
                if worker.number is None:
                    worker.give(queue.take())
            while len(workers) < jobs and (number := queue.take()) is not None:
                workers.append(_Worker(queue, code))
                workers[-1].give(number)
            for pipe in wait([worker.pipe for worker in workers], LOOK_AGAIN_SECONDS):
                worker = next(worker for worker in workers if worker.pipe is pipe)
                if not worker.listen():
                    workers.remove(worker)
            for worker in workers:
                worker.notice_stop()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


class _Worker:
    """A worker process as seen by the one that started it; `number` is of the run it does."""

    def __init__(self, queue: GridQueue, code: ForeignCode) -> None:
        self._queue, self._progress = queue, queue.progress.run()
        self._started = False
        self.number: int | None = None
        self._stopped = False
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(theirs, code, queue.log), daemon=True)
        with _no_interrupt():
            self.process.start()
        theirs.close()

    def give(self, number: int | None) -> None:
        """Have it do a run."""
        self.number = number
        if number is not None:
            spec = self._queue.specs[number]
            with contextlib.suppress(OSError):  # it is dead: `listen` will find out
                self.pipe.send(_WorkerOrder(spec.to_plain(), run_path(self._queue.root, spec).absolute()))

    def listen(self) -> bool:
        """Hear what it tells; False once it is dead. That it never lived is a `UserError`: no other would."""
        try:
            message: RunMessage | RunOutcome | _WorkerStarted = self.pipe.recv()
        except (EOFError, OSError):
            self._progress.end()
            self.process.join()
            if not self._started and self.process.exitcode == 1:  # not killed
                raise UserError(
                    f"a worker process ended as it started (exit code {self.process.exitcode}): a script calls bench "
                    'with more than one job under `if __name__ == "__main__":`, and lies in a file'
                ) from None
            if self.number is not None:
                self._settle(RunOutcome("lost", f" (exit code {self.process.exitcode})"))
            return False
        if isinstance(message, RunOutcome):
            self._settle(message)
        elif isinstance(message, _WorkerStarted):
            self._started = True
        else:
            tell(self._progress, message)
        return True

    def notice_stop(self) -> None:
        """Say so, once, if somebody has stopped it with a signal, from which it would not come back by itself."""
        pid = self.process.pid
        if pid is None or self.number is None:
            return
        with contextlib.suppress(OSError):  # it is dead: `listen` will find out
            was, self._stopped = self._stopped, _is_stopped(pid)
            if self._stopped and not was:
                name = self._queue.specs[self.number].name
                self._queue.progress.say(
                    f"{name}: the process that does it was stopped; `kill -CONT {pid}` lets it go on"
                )

    def _settle(self, outcome: RunOutcome) -> None:
        number, self.number = self.number, None
        assert number is not None, "a worker has an outcome only of a run it was given"
        self._queue.settle(number, outcome)


def _is_stopped(pid: int) -> bool:
    """Whether a child of this process is stopped, as by SIGSTOP; no state of it is taken away from who waits for it."""
    if not hasattr(os, "waitid"):
        return False
    return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


@dataclass(frozen=True)
class _WorkerOrder:
    """A run for a worker to do: what `RunSpec.to_plain` says of it, and its folder."""

    spec: dict[str, Any]
    path: Path


@dataclass(frozen=True)
class _WorkerStarted:
    """What a worker says first."""


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """A process started now never hears Ctrl-C, which goes to the whole group: the one that starts it decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: "Connection[Any, Any]", code: ForeignCode, log: str | None) -> None:
    """What a worker does: the runs it is given, one after the other."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    find_protocol = functools.cache(get_protocol)  # one for all runs, so that photos of a folder are read once

    def send(message: RunMessage | RunOutcome | _WorkerStarted) -> None:
        try:
            pipe.send(message)
        except OSError:
            os._exit(1)  # nobody is there any more; an exception would be taken for a failure of the run

    send(_WorkerStarted())
    while True:
        try:
            order: _WorkerOrder = pipe.recv()
        except (EOFError, OSError):
            return  # nobody is there any more; the connection is reset where they had not read all that was sent

        def spec(order: _WorkerOrder = order) -> RunSpec:
            install(code)
            return RunSpec.from_plain(order.spec, find_protocol)

        send(attempt_run(spec, order.path, RunProgressSender(send), log))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker is started by another process"
    parent.join()
    os._exit(1)
