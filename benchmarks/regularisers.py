"""What regularisers cost on the CIFAR encoder, as multiples of fine-tuning with the same optimiser, on one thread."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from protoreplay.methods.base import Method, MethodContext
from protoreplay.methods.registry import METHODS
from protoreplay.streams.stream import Task

NAMES = ("l2", "ewc", "online-ewc", "si", "mas")
EPOCHS = 5
SHAPE, CLASSES = (3, 32, 32), 10


def seconds(action: Callable[[], None]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def task(images: int) -> Task:
    random = torch.Generator().manual_seed(images)
    pixels = torch.randint(0, 256, (images, *SHAPE), generator=random).to(torch.uint8)
    return Task(1, tuple(range(CLASSES)), pixels, torch.arange(images) % CLASSES)


def build(name: str, epochs: int) -> Method[Any]:
    recipe = METHODS.get(name)
    config = recipe.settings({"encoder": "lenet", "epochs": epochs}, {}, name)
    return recipe.build(config, MethodContext(SHAPE, CLASSES))


def fine_tuning(name: str) -> Method[Any]:
    """The method with its optimiser and without its penalty and its importances."""
    recipe = METHODS.get(name)
    plainly = {"_learn": lambda self, task, on_step: self.fit(task, self.optimizer, on_step)}
    config = recipe.settings({"encoder": "lenet", "epochs": EPOCHS}, {}, name)
    plain: type[Method[Any]] = type(name, (recipe.method,), plainly)
    return plain(config, MethodContext(SHAPE, CLASSES))


def ratios(name: str, images: int, rounds: int) -> tuple[float, float]:
    """A step by a step of fine-tuning, and the consolidation of an image by an image's share of such a step."""
    data = task(images)
    regularised, plain, resting = build(name, EPOCHS), fine_tuning(name), build(name, epochs=0)
    actions = [lambda method=method: method.learn(data) for method in (regularised, plain, resting)]
    # All take turns, and a ratio is the median over the rounds: a slow moment of the machine hits all of them.
    steps, consolidations = [], []
    for _ in range(rounds):
        learned, tuned, consolidated = map(seconds, actions)
        steps.append((learned - consolidated) / tuned)
        consolidations.append(consolidated * EPOCHS / tuned)
    return median(steps), median(consolidations)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':12}{'images':>8}{'a step':>10}{'consolidation of an image':>28}")
    for images, rounds in ((20, 30), (128, 10)):
        for name in NAMES:
            step, consolidation = ratios(name, images, rounds)
            print(f"{name:12}{images:>8}{step:>9.2f}x{consolidation:>27.2f}x")


if __name__ == "__main__":
    main()
