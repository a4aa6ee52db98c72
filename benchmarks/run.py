"""Whole runs on split-cifar10 as the command line does them, each in a process of its own, on one thread.

Wall time is from the start of the process to its end, tests of all images of all classes seen after each of the nine
tasks included; CPU time is what it would take on a machine that does nothing else.

    python benchmarks/run.py [CASE ...]
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CASES = {
    "vpr-paper, fused": ("vpr-paper", "fused=true"),
    "vpr-paper, fused, closed form": ("vpr-paper", "fused=true", "expectation=closed-form"),
    "vpr-paper": ("vpr-paper",),
    **{name: (name,) for name in ("vpr", "sgd", "l2", "ewc", "online-ewc", "si", "mas", "lwf", "icarl", "replay")},
    **{name: (name,) for name in ("nearest-mean", "slda", "joint")},
}


def run(method: str, *settings: str) -> tuple[float, float, list[dict[str, Any]]]:
    """Wall seconds, CPU seconds, and the events of a run's tasks."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "protoreplay.cli", "run", "split-cifar10", "--method", method, "--out", folder]
        for setting in settings:
            command += ["--set", setting]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        (log,) = Path(folder).rglob("events.jsonl")
        return wall, used, [json.loads(line) for line in log.read_text().splitlines()]


def main() -> None:
    cases = sys.argv[1:] or list(CASES)
    for case in cases:
        if case not in CASES:
            sys.exit(f"no case {case}: there are {'; '.join(CASES)}")
    print(f"{'':30}{'wall, s':>9}{'CPU, s':>9}{'learning, s':>13}{'testing, s':>12}{'load':>7}")
    for case in cases:
        wall, used, events = run(*CASES[case])
        learning, testing = (sum(event[f"{kind}_seconds"] for event in events) for kind in ("learn", "test"))
        print(
            f"{case:30}{wall:>9.1f}{used:>9.1f}{learning:>13.1f}{testing:>12.1f}{os.getloadavg()[0]:>7.1f}", flush=True
        )


if __name__ == "__main__":
    main()
