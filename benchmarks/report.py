"""How long `table` and `report` take over a folder of 3,000 finished runs; the folder is made for the occasion."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from protoreplay.experiments.run_config import NamedSettings, RunConfig
from protoreplay.experiments.run_folder import RunFolder

PROTOCOLS = ("split-cifar10", "split-mini-imagenet", "split-digits")
METHODS = 20
SEEDS = 50
TASKS = 9


def write_run(folder: RunFolder, protocol: str, method: int, seed: int, draw: random.Random) -> None:
    """One run as `protoreplay run` leaves it, with made-up counts."""
    settings = {f"setting_{number}": number for number in range(20)} | {"lr": 0.001, "epochs": 50}
    config = RunConfig(
        protocol=NamedSettings(name=protocol, settings={"shots": 10, "tasks": TASKS}),
        method=NamedSettings(name=f"method-{method}", settings=settings),
        seed=seed,
        evaluation="test",
        known_classes=tuple(range(2, TASKS + 2)),
        versions={"protoreplay": "0", "python": "3", "torch": "2", "numpy": "2"},
    )
    counts = ["trained,tested,n,correct"]
    events = []
    for trained in range(1, TASKS + 1):
        right = [draw.randint(20 * method, 400 + 25 * method) for _ in range(trained)]
        counts += [f"{trained},{tested},1000,{correct}" for tested, correct in enumerate(right, start=1)]
        kept = [{"name": name, "numbers": 1000 * (method + 1), "bytes": 4000} for name in ("network", "memory")]
        losses = [round(draw.random(), 6) for _ in range(20)]
        times = {"learn_seconds": 1 + draw.random(), "test_seconds": 0.1}
        events.append(json.dumps({"task": trained, **times, "accuracy": 0.5, "losses": losses, "kept": kept}))
    contents = {"config.json": config.to_json(), "shots.json": b"[]"}
    contents |= {"counts.csv": ("\n".join(counts) + "\n").encode(), "events.jsonl": ("\n".join(events) + "\n").encode()}
    with folder.locked():
        folder.adopt(contents)


def main() -> None:
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for protocol in PROTOCOLS:
            for method in range(METHODS):
                for seed in range(SEEDS):
                    write_run(
                        RunFolder(root / protocol / f"method-{method}" / f"seed-{seed}"), protocol, method, seed, draw
                    )
        print(f"{len(PROTOCOLS)} protocols x {METHODS} methods x {SEEDS} seeds of {TASKS} tasks, whole commands:")
        for words in (["table", str(root)], ["report", str(root), "-o", str(root / "report.html")]):
            started, used = time.perf_counter(), os.times()
            subprocess.run([sys.executable, "-m", "protoreplay.cli", *words], check=True, stdout=subprocess.DEVNULL)
            # On a busy machine the processor time says more.
            processor = sum(os.times()[2:4]) - sum(used[2:4])
            print(f"  {words[0]:8}{time.perf_counter() - started:6.1f} s, {processor:.1f} s of a processor")


if __name__ == "__main__":
    main()
