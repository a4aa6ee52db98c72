"""Which settings each trained rung of the ladder is best with, on validation streams of split-cifar10.

python experiments/ladder_search.py [SEEDS]   (PROTOREPLAY_DATA has cifar10; the grid of five seeds took 18 minutes)

It prints the table of docs/methods/vpr-linear.md. Every rung gets the same search: first the learning rate and the
number of steps; then, at the best of these by the mean of avg and final, each other choice alone. Distances are in
closed form, which takes a third of the time; the last line of each rung is its best again, with samples.
"""

import hashlib
import sys
from typing import Any

import torch
from torch import Tensor

from protoreplay import make_stream
from protoreplay.core.progress import StepCallback
from protoreplay.core.rng import generator
from protoreplay.methods.base import MethodContext
from protoreplay.methods.registry import configure
from protoreplay.methods.vpr_linear import VPRLinear, VPRLinearConfig
from protoreplay.streams.stream import Stream, Task

ASKED = 200
"""Evaluation images of a class."""

RUNGS: dict[str, dict[str, Any]] = {
    "stored images": {"replay": "images"},
    "means": {"replay": "means"},
    "samples, variances of each class": {"replay": "samples", "covariance": "class"},
    "samples, shared covariance": {"replay": "samples", "covariance": "shared"},
}
GRID = [{"lr": lr, "steps": steps} for lr in (3e-5, 1e-4, 3e-4) for steps in (30, 100)]
ALONE: list[dict[str, Any]] = [{"tau": 0.3}, {"tau": 3.0}, {"weighted": False}, {"distance": "squared", "tau": 100.0}]
CLOSED = {"expectation": "closed-form", "distance": "norm", "tau": 1.0, "weighted": True}

Found = Tensor
"""Average over tasks and after the last, in per cent: seeds x 2."""


class WithRememberedBody(VPRLinear):
    """`vpr-linear` on a dictionary that makes a seed's body and the features of an image once, for all settings."""

    remembered: dict[tuple[int, str], Any] = {}  # noqa: RUF012 - shared by all of them on purpose

    def _make_body(self, task: Task, on_step: StepCallback) -> None:
        key = self.context.seed, "body"
        if key not in self.remembered:
            super()._make_body(task, on_step)
            self.remembered[key] = {name: tensor.clone() for name, tensor in self.body.state_dict().items()}
        self.body.load_state_dict(self.remembered[key])

    def embed(self, images: Tensor) -> Tensor:
        key = self.context.seed, hashlib.sha256(images.contiguous().numpy().tobytes()).hexdigest()
        if key not in self.remembered:
            self.remembered[key] = super().embed(images) * self.scale
        features: Tensor = self.remembered[key]
        return features / self.scale

    def generator(self, *purpose: str | int) -> torch.Generator:
        return generator(self.context.seed, VPRLinear.__name__, *purpose)


def accuracies(stream: Stream, seed: int, settings: dict[str, Any]) -> tuple[float, float]:
    config = VPRLinearConfig(**configure("vpr-linear", stream.protocol, settings).model_dump())
    method = WithRememberedBody(config, MethodContext(stream.image_shape, stream.num_classes, seed))
    features, labels, found = [], [], []
    for task in stream:
        method.learn(task)
        images, asked = stream.test_set(task.position)
        features.append(method.embed(images))
        labels.append(asked)
        right = method.predict(torch.cat(features), embedded=True) == torch.cat(labels)
        found.append(100 * right.float().mean().item())
    return sum(found) / len(found), found[-1]


def measured(streams: dict[int, Stream], settings: dict[str, Any]) -> Found:
    return torch.tensor([accuracies(stream, seed, settings) for seed, stream in streams.items()])


def show(name: str, found: Found) -> None:
    error = found.std(0) / len(found) ** 0.5
    cells = [f"{mean:.1f} ± {spread:.1f}" for mean, spread in zip(found.mean(0), error, strict=True)]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def words(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in settings.items())


def main() -> None:
    torch.set_num_threads(1)
    seeds = range(1000, 1000 + (int(sys.argv[1]) if len(sys.argv) > 1 else 5))
    streams = {
        seed: make_stream("split-cifar10", seed=seed, evaluation="validation", test_images=ASKED) for seed in seeds
    }
    print("| | avg | final |\n|---|---|---|")
    show("untrained, no views", measured(streams, {"steps": 0, "views": 1}))
    show("untrained", measured(streams, {"steps": 0}))
    best: dict[str, dict[str, Any]] = {}
    for name, rung in RUNGS.items():
        tried = [(measured(streams, {**CLOSED, **rung, **choice}), choice) for choice in GRID]
        for found, choice in tried:
            show(f"{name}: {words(choice)}", found)
        best[name] = max(tried, key=lambda one: one[0].mean().item())[1]
    for name, rung in RUNGS.items():
        for choice in ALONE:
            found = measured(streams, {**CLOSED, **rung, **best[name], **choice})
            show(f"{name}: {words(best[name] | choice)}", found)
    for name, rung in RUNGS.items():
        chosen = {**CLOSED, **rung, **best[name], "expectation": "sampled"}
        show(f"{name}: {words(best[name])}, 50 samples", measured(streams, chosen))


if __name__ == "__main__":
    main()
