"""Many runs, one after the other, in one folder."""

from pathlib import Path

from protoreplay.experiments.folder import RunFolder
from protoreplay.experiments.progress import Progress
from protoreplay.experiments.run import execute
from protoreplay.experiments.spec import RunSpec


def run_path(root: Path, spec: RunSpec) -> Path:
    """Where a run of a grid lives: `root/variant/seed-N`."""
    return root / spec.variant / f"seed-{spec.seed}"


def execute_grid(specs: list[RunSpec], root: Path, progress: Progress) -> None:
    """Do all runs that are not finished. Each folder is checked before the first run starts."""
    streams = {spec.seed: spec.stream() for spec in specs}
    for spec in specs:
        RunFolder(run_path(root, spec)).check(spec.config(streams[spec.seed]))
    for spec in specs:
        execute(spec, run_path(root, spec), progress)
