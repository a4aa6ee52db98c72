"""Many runs in one folder: checked, done by an engine, and told what failed."""

import time
from collections.abc import Callable
from pathlib import Path

from protoreplay.experiments.grid_queue import LOOK_AGAIN_SECONDS, Failure, GridQueue, attempt, run_path
from protoreplay.experiments.run import logged
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import GridProgress, RunProgress
from protoreplay.experiments.snapshots import SnapshotWriter
from protoreplay.experiments.spec import RunSpec

Engine = Callable[[GridQueue], None]
"""Takes all runs from the work and settles each."""


class RunsFailedError(Exception):
    """Some runs of a grid failed; all others are finished."""

    def __init__(self, failures: list[Failure]) -> None:
        """Keep them."""
        runs, their = ("1 run", "its") if len(failures) == 1 else (f"{len(failures)} runs", "their")
        super().__init__(f"{runs} failed: see {their} error.txt; the same command tries again")
        self.failures = failures


def in_this_process(work: GridQueue) -> None:
    """The engine of this process: one run after the other."""
    while work.left():
        number = work.take()
        if number is None:
            time.sleep(LOOK_AGAIN_SECONDS)
        else:
            spec = work.specs[number]
            work.settle(number, attempt(spec, run_path(work.root, spec), work.board.run(), work.log))


def execute_grid(
    specs: list[RunSpec],
    root: Path,
    board: GridProgress | None = None,
    engine: Engine = in_this_process,
    log: str | None = None,
) -> None:
    """Do all runs that are not finished. Each folder is checked before the first run starts.

    A run that fails does not stop the others: at the end a `RunsFailedError` names all that did. A run that another
    process is at work on is waited for.
    """
    check(specs, root)
    logged(RunProgress(), root, log)
    work = GridQueue(specs, root, board or GridProgress(), log)
    engine(work)
    if work.failures:
        raise RunsFailedError(work.failures)


def check(specs: list[RunSpec], root: Path) -> None:
    """A `UserError` if a stream cannot be made, or a folder is not that of its run."""
    known_classes: dict[object, list[int]] = {}
    for spec in specs:
        # Which classes come, and how many images there are of each, is for all seeds the same: one stream tells.
        kind = (spec.protocol.name, spec.stream_settings, spec.evaluation)
        if kind not in known_classes:
            known_classes[kind] = spec.stream().known_classes()
        folder = RunFolder(run_path(root, spec))
        folder.check(spec.identity(known_classes[kind]))
        if spec.keep and folder.finished():
            SnapshotWriter(folder, spec.stream()).check()
