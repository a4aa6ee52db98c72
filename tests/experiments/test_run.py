import json
import multiprocessing
import random
import time
from pathlib import Path

import pytest
import threadpoolctl
import torch

from protoreplay import make_method, make_stream
from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.experiments import run as run_module
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.run import evaluate, execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.spec import resolve, resolve_grid
from protoreplay.metrics.accuracy import accuracies

SMALL = {"tasks": 4, "epochs": 4, "dim": 8, "samples": 4}
SPAWNER = multiprocessing.get_context("forkserver")
# All that a run imports on its way, so that a child is at work within milliseconds and kills hit the work.
SPAWNER.set_forkserver_preload(["protoreplay.experiments.run", "sklearn.datasets", "torch._dynamo"])


def small(seed=0, method="vpr-paper", **settings):
    return resolve("split-digits", method, seed, {**SMALL, **settings})


def files(path):
    return {name: (path / name).read_bytes() for name in ("counts.csv", "shots.json", "config.json")}


SMALLEST = torch.finfo(torch.float32).tiny / 4
"""Below the numbers that have full precision."""


def test_numpy_too_computes_on_one_thread_and_without_subnormal_numbers(tmp_path):
    seen, halves = [], []

    class Threads(RunProgress):
        def task(self, position, accuracy, seconds):
            seen.extend(pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas")
            halves.append(float(torch.full((100,), 2 * SMALLEST).mul(0.5)[0]))

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        execute(resolve("split-digits", "vpr", 0, {"tasks": 1}), tmp_path, Threads())
    assert set(seen) == {1}
    assert halves == [0.0]
    assert torch.full((100,), 2 * SMALLEST).mul(0.5)[0] > 0


def test_a_run_is_the_library_loop_written_down(tmp_path):
    counts = execute(small(), tmp_path / "run")
    stream = make_stream("split-digits", tasks=4)
    method = make_method("vpr-paper", stream, epochs=4, dim=8, samples=4)
    expected = []
    for task in stream:
        method.learn(task)
        expected += evaluate(method, stream, task.position)
    assert counts == expected
    folder = RunFolder(tmp_path / "run")
    assert folder.counts() == expected
    assert folder.finished()
    assert sorted(entry.name for entry in folder.path.iterdir()) == [
        "calibration.csv",
        "config.json",
        "confusion.csv",
        "counts.csv",
        "events.jsonl",
        "shots.json",
        "top5.csv",
    ]
    lines = (folder.path / "counts.csv").read_text().splitlines()
    assert lines[0] == "trained,tested,n,correct"
    assert len(lines) == 1 + 4 * 5 // 2
    assert folder.shots() == stream.shots()
    config = folder.config()
    assert config.method.settings["epochs"] == 4
    assert config.versions["torch"] == torch.__version__
    events = folder.events()
    assert [event["task"] for event in events] == [1, 2, 3, 4]
    assert [event["accuracy"] for event in events] == accuracies(expected)
    kept = {item["name"]: item["numbers"] for item in events[-1]["kept"]}
    assert kept == {item.name: item.numbers for item in method.ledger()}
    assert all(event["losses"] for event in events)


def test_same_seed_same_files_to_the_byte_other_seed_other_draw(tmp_path):
    execute(small(), tmp_path / "a")
    execute(small(), tmp_path / "b")
    execute(small(seed=1), tmp_path / "c")
    first, second, third = (files(tmp_path / name) for name in "abc")
    assert first == second
    assert first["shots.json"] != third["shots.json"]
    assert first["counts.csv"] != third["counts.csv"]


def test_the_number_of_threads_outside_does_not_change_the_result(tmp_path):
    execute(small(), tmp_path / "a")
    torch.set_num_threads(2)
    execute(small(), tmp_path / "b")
    assert torch.get_num_threads() == 2
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_finished_run_is_not_done_again(tmp_path):
    execute(small(), tmp_path)
    before = {entry: entry.stat().st_mtime_ns for entry in tmp_path.iterdir()}
    steps = []
    progress = RunProgress()
    progress.step = lambda *args: steps.append(args)
    execute(small(), tmp_path, progress)
    assert not steps
    assert {entry: entry.stat().st_mtime_ns for entry in tmp_path.iterdir()} == before


class StopError(Exception):
    pass


class StopsAt(RunProgress):
    def __init__(self, task, step=None):
        self.at, self.at_step = task, step

    def step(self, position, step, steps, loss):
        if position == self.at and step == self.at_step:
            raise StopError

    def task(self, position, accuracy, seconds):
        if position == self.at and self.at_step is None:
            raise StopError


@pytest.mark.parametrize(("task", "step"), [(1, 2), (1, None), (2, 1), (3, None), (4, 3), (4, None)])
def test_continues_after_a_stop_inside_a_task_and_between_its_files(tmp_path, task, step):
    """`task=n, step=None` stops after the event is written and before the checkpoint is."""
    execute(small(), tmp_path / "whole")
    with pytest.raises(StopError):
        execute(small(), tmp_path / "cut", StopsAt(task, step))
    assert not RunFolder(tmp_path / "cut").finished()
    execute(small(), tmp_path / "cut")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert [event["task"] for event in RunFolder(tmp_path / "cut").events()] == [1, 2, 3, 4]
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("number", range(6))
def test_continues_after_a_stop_before_each_file_it_writes(tmp_path, monkeypatch, number):
    """And whenever it writes, another command may look at the folder."""
    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    spec, whole, cut = small(tasks=2), tmp_path / "whole", tmp_path / "cut"
    config, written = spec.config(spec.stream()), []

    def write(path, content):
        RunFolder(cut).refuse_other_run(config)
        if len(written) == number:
            raise StopError
        written.append(path.name)
        write_whole(path, content)

    execute(spec, whole)
    with monkeypatch.context() as patch:
        patch.setattr("protoreplay.experiments.run_folder.write_whole", write)
        with pytest.raises(StopError):
            execute(spec, cut)
    execute(spec, cut)
    assert files(cut) == files(whole)


def test_a_torn_last_event_is_dropped(tmp_path):
    with pytest.raises(StopError):
        execute(small(), tmp_path, StopsAt(3, 1))
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"task": 3, "ti')
    execute(small(), tmp_path)
    assert [event["task"] for event in RunFolder(tmp_path).events()] == [1, 2, 3, 4]


@pytest.mark.parametrize(("part", "other"), [("torch", "1.0"), ("processor", "another")])
def test_a_run_begun_under_other_versions_starts_over(tmp_path, part, other):
    execute(small(), tmp_path / "whole")
    with pytest.raises(StopError):
        execute(small(), tmp_path / "cut", StopsAt(3, 1))
    config = json.loads((tmp_path / "cut" / "config.json").read_text())
    assert config["versions"][part] != other
    config["versions"][part] = other
    (tmp_path / "cut" / "config.json").write_text(json.dumps(config))
    done = []
    progress = RunProgress()
    progress.begin = lambda name, tasks, already: done.append(already)
    execute(small(), tmp_path / "cut", progress)
    assert done == [0]
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def _child(path):
    run_module.CHECKPOINT_SECONDS = 0.0
    torch.set_num_threads(1)
    execute(small(tasks=6, epochs=25), Path(path))


def test_killed_at_ten_random_moments_the_counts_are_the_same(tmp_path):
    SPAWNER.Process(target=int).start()
    child = SPAWNER.Process(target=_child, args=(str(tmp_path / "whole"),))
    started = time.perf_counter()
    child.start()
    child.join(300)
    whole_run = time.perf_counter() - started
    expected = files(tmp_path / "whole")
    moments = random.Random(0)
    kills, attempt, progressed = 0, 0, 0
    while kills < 10:
        path = tmp_path / f"attempt-{attempt}"
        child = SPAWNER.Process(target=_child, args=(str(path),))
        child.start()
        child.join(moments.uniform(0, 0.6 * whole_run))
        if child.is_alive():
            child.kill()
            child.join(300)
            kills += 1
            folder = RunFolder(path)
            if folder.exists():
                folder.config(), folder.shots(), folder.events()
                rows = folder.counts()
                progressed += bool(rows)
                assert len(rows) in [tasks * (tasks + 1) // 2 for tasks in range(7)]
        else:
            assert child.exitcode == 0
            assert files(path) == expected
            attempt += 1
    execute(small(tasks=6, epochs=25), tmp_path / f"attempt-{attempt}")
    assert files(tmp_path / f"attempt-{attempt}") == expected
    assert [event["task"] for event in RunFolder(path).events()] == list(range(1, 7))
    assert progressed, "every kill came before the first task was done: nothing was tested"


def snapshot(path):
    return {entry: entry.read_bytes() for entry in sorted(path.rglob("*")) if entry.is_file()}


def test_a_folder_of_another_configuration_is_refused_untouched(tmp_path):
    execute(small(), tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=r"holds a run with method.settings.tau=3.0, not 2.0: choose another --out"):
        execute(small(tau=2), tmp_path)
    with pytest.raises(UserError, match=r"holds a run with seed=0, not 1"):
        execute(small(seed=1), tmp_path)
    assert snapshot(tmp_path) == before


def test_a_folder_of_other_files_is_refused_untouched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="holds files that are not of a run"):
        execute(small(), tmp_path)
    assert snapshot(tmp_path) == {tmp_path / "thesis.tex": b"years of work"}
    with pytest.raises(UserError, match="is a file"):
        execute(small(), tmp_path / "thesis.tex")


def test_a_folder_in_use_is_refused(tmp_path):
    with RunFolder(tmp_path).locked(), pytest.raises(UserError, match="in use by another process"):
        execute(small(), tmp_path)
    execute(small(), tmp_path)


def test_damaged_files_are_named(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text("[]")
    with pytest.raises(UserError, match="is not the configuration of a run"):
        execute(small(), tmp_path / "b")


def test_a_grid_checks_all_folders_before_it_starts(tmp_path):
    names = ["nearest-mean", "sgd"]
    other = resolve("split-digits", "sgd", 1, {"lr": 0.5, "tasks": 4, "epochs": 1})
    execute(other, tmp_path / "sgd,epochs=1,tasks=4" / "seed-1")
    specs = resolve_grid("split-digits", names, [0, 1], {"tasks": 4, "epochs": 1})
    assert [(spec.seed, spec.method) for spec in specs] == [(0, names[0]), (0, names[1]), (1, names[0]), (1, names[1])]
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="sgd,epochs=1,tasks=4/seed-1 holds a run with"):
        execute_grid(specs, tmp_path)
    assert snapshot(tmp_path) == before
    execute_grid(specs, tmp_path / "new")
    assert len(list((tmp_path / "new").rglob("counts.csv"))) == 4


def test_overrides_go_to_whoever_has_the_setting():
    vpr, sgd = resolve_grid("split-digits", ["vpr-paper", "sgd"], [0], {"tau": "2", "shots": "5"})
    assert vpr.method_settings.tau == 2.0
    assert vpr.stream_settings.shots == sgd.stream_settings.shots == 5
    assert (vpr.variant, sgd.variant) == ("vpr-paper,shots=5,tau=2", "sgd,shots=5")
    with pytest.raises(UserError, match="unknown setting 'tau' of split-digits with sgd"):
        resolve_grid("split-digits", ["sgd"], [0], {"tau": "2"})


def test_the_protocol_prescribes_and_the_user_overrides():
    assert small(method="vpr-paper").method_settings.budget == 10
    assert resolve("permuted-digits", "vpr-paper", 0, {}).method_settings.encoder == "mlp-small"
    assert resolve("permuted-digits", "vpr-paper", 0, {"encoder": "conv-small"}).method_settings.encoder == "conv-small"
