"""Throughput of `bench --jobs 2` against `--jobs 1` on split-cifar10; at least 1.7 on two quiet cores."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from protoreplay import UserError, make_stream

METHODS, SEEDS, TASKS = "sgd,l2", 3, 7
TARGET = 1.7


def seconds(jobs: int) -> float:
    """Of the whole command, with its start and its table, into a fresh folder."""
    with tempfile.TemporaryDirectory() as place:
        words = ["bench", "split-cifar10", "--methods", METHODS, "--seeds", str(SEEDS), "--jobs", str(jobs)]
        words += ["--set", f"tasks={TASKS}"]
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "protoreplay.cli", *words, "--out", str(Path(place) / "runs")],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - started


def main() -> None:
    try:
        make_stream("split-cifar10")
    except UserError as error:
        print(f"split-cifar10: {error}")
        return
    load = os.getloadavg()[0]
    one, two = seconds(1), seconds(2)
    print(
        f"split-cifar10, {METHODS}, {SEEDS} seeds, {TASKS} tasks: --jobs 1 {one:.1f} s, --jobs 2 {two:.1f} s, "
        f"{one / two:.2f} times the throughput, target {TARGET} on two quiet cores; {os.cpu_count()} cores, "
        f"load {load:.1f} before"
    )


if __name__ == "__main__":
    main()
