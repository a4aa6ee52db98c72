"""Whole runs on split-cifar10 as the command line does them, each in a process of its own, on one thread.

Wall time is from the start of the process to its end, tests of all images of all classes seen after each of the nine
tasks included; CPU time is what it would take on a machine that does nothing else.

    python benchmarks/run.py [CASE ...]
    python benchmarks/run.py forward [METHOD ...]

The second form compares the CPU time of a run with that of the bare forward pass of its own network over the very
batches that the run sends through it, in training and in tests.
"""

import collections
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from protoreplay.encoders.network import Network
from protoreplay.experiments.run import EmbeddedTestSets, evaluate
from protoreplay.experiments.spec import resolve_grid

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


@torch.no_grad()
def forward_seconds(network: Network, shape: tuple[int, ...], batches: collections.Counter[int]) -> float:
    """CPU seconds of the forward pass over so many batches of each size: a few of each are timed."""
    total = 0.0
    for size, count in batches.items():
        images, rounds = torch.randint(0, 256, (size, *shape), dtype=torch.uint8), min(count, max(3, 1000 // size))
        network(images)
        started = time.process_time()
        for _ in range(rounds):
            network(images)
        total += (time.process_time() - started) / rounds * count
    return total


def against_forward(name: str) -> None:
    """One run in this process, on one thread, and the forward pass over its own images."""
    torch.set_num_threads(1)
    (spec,) = resolve_grid("split-cifar10", [name], [0], {})
    stream = spec.stream()
    method: Any = spec.build(stream)
    tests = EmbeddedTestSets(stream)
    batches: collections.Counter[int] = collections.Counter()

    def see(module: torch.nn.Module, arguments: Any) -> None:
        if isinstance(module, Network):
            batches[len(arguments[0])] += 1

    started = time.process_time()
    with torch.nn.modules.module.register_module_forward_pre_hook(see):
        for position in range(1, len(stream) + 1):
            method.learn(stream.task(position))
            evaluate(method, stream, position, tests)
    used = time.process_time() - started
    bare = forward_seconds(method.network, stream.image_shape, batches)
    images = sum(size * count for size, count in batches.items())
    ratio = f"{used / bare:.1f} times the {bare:.1f} s of a forward pass"
    print(f"{name}: {used:.1f} s of CPU, {ratio} over its {images:,} images")


def main() -> None:
    if sys.argv[1:2] == ["forward"]:
        for name in sys.argv[2:] or ["vpr-paper"]:
            against_forward(name)
        return
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
