"""The engine of local worker processes.

A worker opens data itself, by memory map, and does many runs. Each run computes with one thread wherever it is done,
so a worker's share of the machine is one thread. A worker that dies takes nothing with it: the run's lock is free
again, and the run continues from its last whole task in another worker. Workers end with the process that started
them, whatever ends it.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from protoreplay.experiments.grid_queue import LOOK_AGAIN_SECONDS, GridQueue, Outcome, attempt, run_path
from protoreplay.experiments.run_progress import RunProgressSender
from protoreplay.experiments.spec import RunSpec

# Not forked: PyTorch's threads do not survive a fork.
SPAWN = multiprocessing.get_context("spawn")


def in_workers(work: GridQueue, jobs: int) -> None:
    """Up to `jobs` runs at a time, each in a worker process."""
    workers: list[_Worker] = []
    try:
        while work.left() or any(worker.number is not None for worker in workers):
            for worker in workers:
                if worker.number is None:
                    worker.give(work.take())
            while len(workers) < jobs and (number := work.take()) is not None:
                workers.append(_Worker(work))
                workers[-1].give(number)
            for pipe in wait([worker.pipe for worker in workers], LOOK_AGAIN_SECONDS):
                worker = next(worker for worker in workers if worker.pipe is pipe)
                if not worker.listen():
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


class _Worker:
    """A worker process as seen by the one that started it; `number` is of the run it does."""

    def __init__(self, work: GridQueue) -> None:
        self._work, self._view = work, work.board.run()
        self.number: int | None = None
        self.pipe, theirs = SPAWN.Pipe()
        arguments = (theirs, work.specs, work.root, work.log)
        self.process = SPAWN.Process(target=_serve, args=arguments, daemon=True)
        with _no_interrupt():
            self.process.start()
        theirs.close()

    def give(self, number: int | None) -> None:
        """Have it do a run."""
        self.number = number
        if number is not None:
            with contextlib.suppress(OSError):  # it is dead: `listen` will find out
                self.pipe.send(number)

    def listen(self) -> bool:
        """Hear what it tells; False once it is dead."""
        try:
            told, arguments = self.pipe.recv()
        except (EOFError, OSError):
            self._view.end()
            self.process.join()
            if self.number is not None:
                self._settle(Outcome("lost", f" (exit code {self.process.exitcode})"))
            return False
        if told == "outcome":
            self._settle(*arguments)
        else:
            getattr(self._view, told)(*arguments)
        return True

    def _settle(self, outcome: Outcome) -> None:
        number, self.number = self.number, None
        assert number is not None, "a worker has an outcome only of a run it was given"
        self._work.settle(number, outcome)


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """A process started now never hears Ctrl-C, which goes to the whole group: the one that starts it decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: "Connection[Any, Any]", specs: list[RunSpec], root: Path, log: str | None) -> None:
    """What a worker does: the runs it is given, one after the other."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)

    def tell(told: str, *arguments: object) -> None:
        try:
            pipe.send((told, arguments))
        except OSError:
            os._exit(1)  # nobody is there any more; an exception would be taken for a failure of the run

    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        spec = specs[number]
        tell("outcome", attempt(spec, run_path(root, spec), RunProgressSender(tell), log))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker is started by another process"
    parent.join()
    os._exit(1)
