"""Run folders without runs."""

from protoreplay.experiments.run_config import RunConfig
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.metrics.accuracy import Count


def fake_run(path, method, seed, accuracies, settings=None, finished=True, kept=10, images=100, **config):
    """A run folder with given accuracies (in percent of 100 `images`) on one new class after each task.

    `kept` is by name the numbers of what is kept, or those of the network.
    """
    folder = RunFolder(path)
    with folder.locked():
        protocol, stream = config.pop("protocol", "split-digits"), config.pop("stream", {"shots": 10})
        said = {
            "protocol": {"name": protocol, "settings": stream},
            "method": {"name": method, "settings": settings or {}},
            "seed": seed,
            "evaluation": "test",
            "known_classes": [task + 1 for task in range(len(accuracies))],
            "versions": {"protoreplay": "0", "python": "3"},
            **config,
        }
        folder.start(RunConfig(**said), [])
        rows = [Count(i, j, images, value) for i, value in enumerate(accuracies, 1) for j in range(1, i + 1)]
        folder.write_counts(rows if finished else rows[:-1])
        items = kept if isinstance(kept, dict) else {"network": kept, "memory": 5}
        ledger = [{"name": name, "numbers": n, "bytes": 4 * n if n != 5 else 5} for name, n in items.items()]
        folder.append_events([{"task": 1, "learn_seconds": 1.0, "test_seconds": 0.5, "kept": ledger}])
        folder.clean()


def many_runs(root, methods, seeds=3, tasks=4, protocol="split-digits"):
    """Runs of methods called `method-0`, ..., the first the best, whose accuracies fall with the tasks."""
    for number in range(methods):
        for seed in range(seeds):
            accuracies = [max(0, 95 - 3 * number - 5 * task - 2 * seed * (number % 3)) for task in range(tasks)]
            path = root / protocol / f"{number}-{seed}"
            fake_run(path, f"method-{number}", seed, accuracies, protocol=protocol, kept=10 * (number + 1))
