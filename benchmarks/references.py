"""Closed-form methods: learning and answering, as multiples of the time to read the features, on one thread.

The features are a file of NumPy's, as an encoder's cache would be: lite2's width, ten images of each class for learning
and a hundred for answering. Reading is opening the file, taking the rows into memory and handing them to PyTorch in the
batches that methods answer in. All take turns, and a ratio is the median over the rounds, so that a slow moment of the
machine hits all of them. Times are of the processor, not of the wall.

    python benchmarks/references.py [--width 1280] [--classes 10,100] [--rounds 3] [--only ranpac,klda]
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoreplay.methods.base import PREDICT_BATCH, MethodContext
from protoreplay.methods.fixed_features import FixedFeatureMethod
from protoreplay.methods.registry import METHODS
from protoreplay.streams.stream import Task

NAMES = ("nearest-mean", "slda", "simplecil", "fecam", "ranpac", "acil", "klda", "logistic")
SHOTS, ASKED, PER_TASK = 10, 100, 5


class GivenFeatures(nn.Module):
    """Features that were computed before: the "images" are their numbers."""

    def forward(self, numbers: Tensor) -> Tensor:
        """N x 1 x 1 x D to N x D."""
        return numbers.flatten(1)


def seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def unit_rows(count: int, width: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features of unit length around a centre for each class, and their labels."""
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(classes).repeat_interleave(count)
    rows = centres[labels] + 2 * torch.randn(len(labels), width, generator=random)
    return nn.functional.normalize(rows), labels


def read_features(path: Path, width: int) -> list[Tensor]:
    """The file's rows as images that are features, in batches."""
    return list(torch.from_numpy(np.load(path)).view(-1, 1, 1, width).split(PREDICT_BATCH))


def tasks_of(rows: Tensor, labels: Tensor, classes: int) -> list[Task]:
    """Some classes a task."""
    found = []
    for position, first in enumerate(range(0, classes, PER_TASK), start=1):
        brought = tuple(range(first, min(first + PER_TASK, classes)))
        own = torch.isin(labels, torch.tensor(brought))
        found.append(Task(position, brought, rows[own], labels[own]))
    return found


def built(name: str, width: int, classes: int) -> FixedFeatureMethod[Any]:
    entry = METHODS.get(name)
    # Pixels of an image of this shape are as wide as the features that stand in their place.
    method = entry.build(entry.settings({}, {"features": "pixels"}, name), MethodContext((1, 1, width), classes))
    assert isinstance(method, FixedFeatureMethod)
    method.features = GivenFeatures()
    return method


def measure(name: str, width: int, classes: int, rounds: int) -> tuple[float, float, float]:
    """Reading in seconds; learning the last task, and answering with what answering needs first, in readings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        asked, _ = unit_rows(ASKED, width, classes, seed=2)
        np.save(path, asked.numpy())
        *before, last = tasks_of(*_as_images(*unit_rows(SHOTS, width, classes, seed=1)), classes)
        method = built(name, width, classes)
        for task in before:
            method.learn(task)
        start, numbers = method.state(), torch.cat(read_features(path, width))
        reading, learning, answering = [], [], []
        for _ in range(rounds):
            method.restore(start)
            reading.append(seconds(lambda: read_features(path, width)))
            learning.append(seconds(lambda: method.learn(last)) / reading[-1])
            answering.append(seconds(lambda: method.predict_proba(numbers)) / reading[-1])
        return median(reading), median(learning), median(answering)


def _as_images(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    return rows.view(len(rows), 1, 1, -1), labels


def features_against_methods(options: argparse.Namespace) -> None:
    """Print the ratios of all methods."""
    print(f"{'':14}{'classes':>8}{'read, ms':>10}{'learn a task / read':>21}{'answer / read':>15}")
    for classes in (int(number) for number in options.classes.split(",")):
        for name in NAMES:
            if not name.startswith(tuple(options.only.split(","))):
                continue
            reading, learning, answering = measure(name, options.width, classes, options.rounds)
            print(f"{name:14}{classes:>8}{1000 * reading:>10.2f}{learning:>20.1f}x{answering:>14.1f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--classes", default="10,100")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="the beginnings of the names wanted")
    options = parser.parse_args()
    torch.set_num_threads(1)
    features_against_methods(options)


if __name__ == "__main__":
    main()
