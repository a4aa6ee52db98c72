"""1,000 runs of nearest-mean on kept features, `bench --jobs 2`, against the same work in one plain loop.

A hundred settings with ten seeds each, on split-cifar10 as an encoder's features. The loop makes the same streams,
learns and tests the same tasks, embeds each test set once, and has no folders, no checkpoints, no processes and no
table. Times are of the processor, of a command with all of its processes: at most 1.5 times the loop's. The features
are made before.

    python benchmarks/short_runs.py [--encoder lite2] [--settings 100] [--seeds 10] [--jobs 2] [--test-images 100]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from protoreplay import UserError
from protoreplay.experiments.run import EmbeddedTestSets, evaluate, one_thread
from protoreplay.experiments.spec import RunSpec, resolve_grid
from protoreplay.metrics.accuracy import Count

PROTOCOL, METHOD, TARGET = "split-cifar10", "nearest-mean", 1.5


def child_seconds() -> float:
    """Of the processor, of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wanted(options: argparse.Namespace) -> list[RunSpec]:
    """The runs: what varies is how many training images a class has, and the order of classes."""
    return resolve_grid(
        PROTOCOL,
        [METHOD],
        list(range(options.seeds)),
        {"test_images": options.test_images},
        vary=varied(options.settings),
        encoder=options.encoder,
    )


def varied(settings: int) -> dict[str, list[str]]:
    """Values of two settings, `settings` pairs of them."""
    return {"shots": [str(number) for number in range(1, settings // 2 + 1)], "class_order": ["sorted", "random"]}


def plain_loop(options: argparse.Namespace) -> None:
    """All runs one after the other, in this process, with nothing written."""
    answers = []
    with one_thread():
        for spec in wanted(options):
            stream = spec.stream()
            method = spec.build(stream)
            counts, tests = list[Count](), EmbeddedTestSets(stream)
            for position in range(1, len(stream) + 1):
                method.learn(stream.task(position))
                counts += evaluate(method, stream, position, tests)
            answers.append(sum(count.correct for count in counts))
    print(json.dumps({"runs": len(answers), "correct": sum(answers)}))


def measured(words: list[str]) -> float:
    """Processor seconds of a command, from its start to its end."""
    before = child_seconds()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return child_seconds() - before


def bench_seconds(options: argparse.Namespace) -> float:
    """Processor seconds of `bench` for the same runs, into a fresh folder."""
    words = ["-m", "protoreplay.cli", "bench", PROTOCOL, "--methods", METHOD, "--encoder", options.encoder]
    words += ["--seeds", str(options.seeds), "--jobs", str(options.jobs)]
    words += ["--set", f"test_images={options.test_images}"]
    for key, values in varied(options.settings).items():
        words += ["--vary", f"{key}={','.join(values)}"]
    with tempfile.TemporaryDirectory() as place:
        return measured([*words, "--out", str(Path(place) / "runs")])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="lite2")
    parser.add_argument("--settings", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--test-images", type=int, default=100)
    parser.add_argument("--loop", action="store_true", help="only the plain loop")
    options = parser.parse_args()
    if options.loop:
        plain_loop(options)
        return
    try:
        runs = len(wanted(options))
    except UserError as error:
        print(f"{PROTOCOL}: {error}")
        return
    loop = [__file__, *sys.argv[1:], "--loop"]
    measured(loop)  # the first makes the features
    one, many = measured(loop), bench_seconds(options)
    print(
        f"{PROTOCOL} on {options.encoder}, {runs:,} runs of {METHOD}: a plain loop {one:.1f} s of the processor, "
        f"bench --jobs {options.jobs} {many:.1f} s, {many / one:.2f} times as much, target {TARGET}; "
        f"load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
