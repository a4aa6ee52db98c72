"""What folders and checkpoints cost where a run takes milliseconds: many runs of `nearest-mean` on cached features.

The same 1,000 runs (100 settings, 10 seeds) as `protoreplay bench --jobs 2` does them and in one plain loop that writes
nothing; of both, processor time with that of the worker processes. Prints the ratio.

    python benchmarks/features.py [--protocol split-cifar10] [--encoder random] [--runs 1000] [--jobs 2]
"""

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.run import EmbeddedTestSets, evaluate, one_thread
from protoreplay.experiments.spec import RunSpec, resolve_grid
from protoreplay.experiments.workers import in_workers

SEEDS = 10


def processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def plain_loop(specs: list[RunSpec]) -> None:
    for spec in specs:
        stream = spec.stream()
        method, tests = spec.build(stream), EmbeddedTestSets(stream)
        for task in stream:
            method.learn(task)
            evaluate(method, stream, task.position, tests)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="split-cifar10")
    parser.add_argument("--encoder", default="random")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    side = max(1, round((chosen.runs / SEEDS) ** 0.5))
    vary = {"shots": range(1, side + 1), "test_images": range(10, 10 * side + 1, 10)}
    specs = resolve_grid(chosen.protocol, ["nearest-mean"], list(range(SEEDS)), {}, vary=vary, encoder=chosen.encoder)
    with one_thread():
        plain_loop(specs)  # makes the features, which is not what is measured
        started, clock = processor_seconds(), time.perf_counter()
        plain_loop(specs)
        plain, plain_clock = processor_seconds() - started, time.perf_counter() - clock
    with tempfile.TemporaryDirectory() as place:
        started, clock = processor_seconds(), time.perf_counter()
        execute_grid(specs, Path(place), engine=partial(in_workers, jobs=chosen.jobs))
        grid, grid_clock = processor_seconds() - started, time.perf_counter() - clock
    print(
        f"{len(specs)} runs of nearest-mean on {chosen.protocol} with --encoder {chosen.encoder}, --jobs {chosen.jobs}"
    )
    print(f"plain loop: {plain:.1f} s of processor time, {plain_clock:.1f} s on the clock")
    print(f"grid with folders and checkpoints: {grid:.1f} s of processor time, {grid_clock:.1f} s on the clock")
    print(f"ratio of processor time: {grid / plain:.2f}")


if __name__ == "__main__":
    main()
