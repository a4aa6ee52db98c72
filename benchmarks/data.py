"""How fast a stream opens and gives its first task, and how much memory all of its tasks take."""

import time
from pathlib import Path

import torch

from protoreplay import UserError, make_stream

TARGETS = {"split-cifar10": 0.3, "permuted-mnist": 0.5}


def resident() -> float:
    """Resident memory of this process in MB; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def measure(protocol: str, target: float) -> None:
    before, started = resident(), time.perf_counter()
    try:
        stream = make_stream(protocol)
    except UserError as error:
        print(f"{protocol}: {error}")
        return
    task = stream.task(1)
    seconds = time.perf_counter() - started
    print(f"{protocol}: open and first task ({len(task.labels):,} images) {seconds:.3f} s, target {target} s")
    most = resident()
    for position in range(1, len(stream) + 1):
        task, tests = stream.task(position), stream.test_set(position)
        # Sums touch every byte, so that mapped pages count.
        int(task.images.sum()) + int(tests[0].sum())
        most = max(most, resident())
    own = (stream.train.images.nbytes + stream.test.images.nbytes) / 1e6
    print(
        f"{protocol}: all {len(stream)} tasks with their test images: at most +{most - before:.0f} MB resident, "
        f"{(most - before) / own:.2f} times the {own:.0f} MB of the images"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_stream("permuted-digits").task(2)  # the first call of a process sets PyTorch up
    for name, limit in TARGETS.items():
        measure(name, limit)
