"""A VPR training step, as a multiple of the bare encoder's forward, backward and optimiser step on the same images."""

import time

import torch

from protoreplay import make_method, make_stream
from protoreplay.methods.batches import episodes
from protoreplay.protocols import Task

PAST_TASKS = 8


def seconds(action, repeats: int = 30) -> float:
    """Median of `repeats` timings after a warm-up."""
    for _ in range(5):
        action()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return sorted(times)[repeats // 2]


def encoder_step(method, images) -> None:
    optimizer = torch.optim.Adam(method.network.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        method.network(images).square().mean().backward()
        optimizer.step()

    return step


def new_image_step(method, task: Task):
    optimizer = torch.optim.Adam(method.network.parameters(), lr=1e-3, fused=True)
    groups = torch.searchsorted(torch.tensor(task.classes), task.labels)
    random = torch.Generator().manual_seed(0)
    support, query = next(episodes(groups, method.config, random))

    def step() -> None:
        optimizer.zero_grad()
        method._new_image_loss(task.images, groups, support, query, random).backward()
        optimizer.step()

    return step


def replay_step(method):
    optimizer = torch.optim.Adam(method.network.parameters(), lr=1e-3, fused=True)
    random = torch.Generator().manual_seed(0)
    recalls, images = method._recalls(), method.memory.images
    return lambda: method._replay(recalls, images, optimizer, random)


def main() -> None:
    torch.set_num_threads(1)
    stream = make_stream("split-digits", tasks=PAST_TASKS + 1)
    print(f"split-digits, one thread, {PAST_TASKS} past tasks; times as multiples of the bare encoder's step")
    print(f"{'':28}{'new images':>12}{'replay, one step each':>24}{'replay, fused':>16}")
    for expectation in ("sampled", "closed-form"):
        ratios = []
        for fused in (False, True):
            method = make_method("vpr-paper", stream, expectation=expectation, fused=fused, epochs=1)
            for position in range(1, PAST_TASKS + 1):
                method.learn(stream.task(position))
            task = stream.task(PAST_TASKS + 1)
            if not fused:
                ratios.append(seconds(new_image_step(method, task)) / seconds(encoder_step(method, task.images)))
            bare = seconds(encoder_step(method, method.memory.images))
            ratios.append(seconds(replay_step(method)) / bare)
        name = "50 samples" if expectation == "sampled" else "closed form"
        print(f"{name:28}{ratios[0]:>11.2f}x{ratios[1]:>23.2f}x{ratios[2]:>15.2f}x")


if __name__ == "__main__":
    main()
