"""Many runs in one folder: checked, done by an engine, and told what failed."""

import time
from collections.abc import Callable
from pathlib import Path

from protoreplay.experiments.grid_queue import LOOK_AGAIN_SECONDS, FailedRun, GridQueue, attempt_run, run_path
from protoreplay.experiments.run import logged, other_source_error, other_source_text
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import GridProgress, RunProgress
from protoreplay.experiments.snapshots import SnapshotWriter
from protoreplay.experiments.spec import RunSpec

Engine = Callable[[GridQueue], None]
"""Takes all runs from the queue and settles each."""


class RunsFailedError(Exception):
    """Some runs of a grid failed; all others are finished."""

    def __init__(self, failures: list[FailedRun]) -> None:
        runs, their = ("1 run", "its") if len(failures) == 1 else (f"{len(failures)} runs", "their")
        super().__init__(f"{runs} failed: see {their} error.txt; the same command tries again")
        self.failures = failures


def in_this_process(queue: GridQueue) -> None:
    """The engine of this process: one run after the other."""
    while queue.left():
        number = queue.take()
        if number is None:
            time.sleep(LOOK_AGAIN_SECONDS)
        else:
            spec = queue.specs[number]
            queue.settle(number, attempt_run(spec, run_path(queue.root, spec), queue.progress.run(), queue.log))


def execute_grid(
    specs: list[RunSpec],
    root: Path,
    progress: GridProgress | None = None,
    engine: Engine = in_this_process,
    log: str | None = None,
) -> None:
    """Do all runs that are not finished. Each folder is checked before the first run starts.

    A run that fails does not stop the others: at the end a `RunsFailedError` names all that did. A run that another
    process is at work on is waited for.
    """
    outdated = check_folders(specs, root)
    logged(RunProgress(), root, log)
    progress = progress or GridProgress()
    if outdated:
        progress.say(f"{other_source_text(outdated)}, and {_BECOMES[specs[0].other_source]}")
    queue = GridQueue(specs, root, progress, log)
    engine(queue)
    if queue.failures:
        raise RunsFailedError(queue.failures)


_BECOMES = {"redo": "done again", "keep": "taken as they are"}


def check_folders(specs: list[RunSpec], root: Path) -> list[tuple[str, list[str]]]:
    """A `UserError` if a stream cannot be made, or a folder is not that of its run.

    Returns the names of finished runs whose source code has changed, and the changed parts. If there are any and the
    runs do not say what to do with them, that is a `UserError` too.
    """
    known_classes: dict[object, list[int]] = {}
    outdated: list[tuple[str, list[str]]] = []
    for spec in specs:
        # Which classes come, and how many images there are of each, is for all seeds the same: one stream tells.
        kind = (spec.protocol.name, spec.stream_settings, spec.evaluation)
        if kind not in known_classes:
            known_classes[kind] = spec.stream().known_classes()
        folder = RunFolder(run_path(root, spec))
        folder.refuse_other_run(spec.identity(known_classes[kind]), spec.defaults())
        if parts := spec.other_code(folder):
            outdated.append((spec.name, parts))
        if spec.keep and spec.done_in(folder):
            SnapshotWriter(folder, spec.stream()).require_all()
    if outdated and any(spec.other_source == "refuse" for spec in specs):
        raise other_source_error(outdated)
    return outdated
