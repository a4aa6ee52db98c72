"""How fast a cached dataset opens and gives the images of its first task, and how much memory that takes."""

import time
from pathlib import Path

import torch

from protoreplay.data import Dataset, cifar10, mnist
from protoreplay.errors import UserError


def resident() -> float:
    """Resident memory of this process in MB; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def first_task(dataset: Dataset, classes: int, shots: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """`shots` training images, or all, of each of the first classes."""
    labels = dataset.train.labels
    chosen = torch.cat([(labels == label).nonzero().flatten()[:shots] for label in range(classes)])
    return dataset.train.images[chosen], labels[chosen]


def measure(title: str, load, classes: int, shots: int | None) -> None:
    before, started = resident(), time.perf_counter()
    try:
        dataset = load()
    except UserError as error:
        print(f"{title}: {error}")
        return
    opened, memory = time.perf_counter(), resident()
    images, _ = first_task(dataset, classes, shots)
    finished = time.perf_counter()
    own = (dataset.train.images.nbytes + dataset.test.images.nbytes) / 1e6
    print(
        f"{title}: open {1e3 * (opened - started):.1f} ms, first task ({len(images)} images) "
        f"{1e3 * (finished - opened):.1f} ms; resident +{memory - before:.1f} MB opened, "
        f"+{resident() - before:.1f} MB with the task, of {own:.1f} MB of images"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.arange(10).nonzero()  # the first call of a process sets PyTorch up
    measure("split-cifar10, 2 classes of 10", cifar10.load, 2, 10)
    measure("mnist, 10 classes of 10", mnist.load, 10, 10)
    measure("permuted-mnist, 10 classes, all", mnist.load, 10, None)
