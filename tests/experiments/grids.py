"""A `bench` command as a process of its own, and what it leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from protoreplay.experiments.run_folder import RunFolder

# Notes every run that is done to its end, by whichever process; workers import this file as their main module.
SCRIPT = """
import os
import signal

from protoreplay.experiments.run_folder import RunFolder

write_counts = RunFolder.write_counts


def noting(self, counts):
    write_counts(self, counts)
    if self.finished():
        with open(os.environ["ENDS"], "a") as file:
            file.write(f"{os.getppid()} {self.path}\\n")


RunFolder.write_counts = noting
if __name__ == "__main__":
    from protoreplay.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which children of a background job start without
    main()
"""


class Bench:
    """`protoreplay bench ... --out PLACE/runs`, in a process group of its own, as often as it is started."""

    def __init__(self, place: Path, *words: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.root, self._ends, script = place / "runs", place / "ends", place / "bench.py"
        script.write_text(SCRIPT)
        self._words = [sys.executable, str(script), "bench", *words, "--out", str(self.root)]

    def start(self) -> subprocess.Popen:
        return subprocess.Popen(
            self._words,
            env={**os.environ, "ENDS": str(self._ends)},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ends(self) -> list[str]:
        """The folder of each run that was done to its end, as often as it was."""
        return [line.split()[1] for line in self._ends.read_text().splitlines()] if self._ends.exists() else []

    def tasks(self) -> int:
        """How many tasks are done, of all runs."""
        return sum(path.read_bytes().count(b"\n") for path in self.root.rglob("events.jsonl"))

    def wait_for(self, met: Callable[[], bool], process: subprocess.Popen) -> None:
        deadline = time.monotonic() + 120
        while not met() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def wait_for_tasks(self, tasks: int, process: subprocess.Popen) -> None:
        self.wait_for(lambda: self.tasks() >= tasks, process)

    def finished(self) -> dict[Path, int]:
        """When the counts of each finished run were written."""
        return {
            path: path.stat().st_mtime_ns for path in self.root.rglob("counts.csv") if RunFolder(path.parent).finished()
        }


def results(root: Path) -> dict[str, bytes]:
    """The files of all runs whose content does not depend on time, and the names of all others."""
    kept = ("counts.csv", "shots.json", "config.json")
    return {
        str(path.relative_to(root)): path.read_bytes() if path.name in kept else b""
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def workers(process: subprocess.Popen) -> list[int]:
    """The worker processes of a bench command; Linux only."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def kill_group(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=300)
