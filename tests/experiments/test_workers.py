import json
import os
import random
import signal
import sys
import time

import pytest

from protoreplay import cli
from protoreplay.experiments.folder import RunFolder
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.spec import resolve_grid
from protoreplay.methods import REGISTRY

from .grids import Bench, kill_group, results, workers

KILLS = int(os.environ.get("PROTOREPLAY_KILLS", "0"))
"""With it, the whole of what must hold: so many kills of a grid of all methods with 3 seeds, in several minutes."""

METHODS, SEEDS = ["vpr", "sgd", "nearest-mean"], 2
SETTINGS = {"tasks": "4", "epochs": "6", "samples": "4"}
WORDS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
GRID = ["split-digits", "--methods", ",".join(METHODS), "--seeds", str(SEEDS), *WORDS]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    execute_grid(resolve_grid("split-digits", METHODS, list(range(SEEDS)), SETTINGS), root)
    return root


def table(capsys, monkeypatch, root):
    """`table --format json` without the times."""
    monkeypatch.setattr(sys, "argv", ["protoreplay", "table", str(root), "--format", "json"])
    with pytest.raises(SystemExit):
        cli.main()
    rows = json.loads(capsys.readouterr().out)
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]


def test_killed_at_random_moments_the_table_is_the_same_and_nothing_is_done_twice(
    tmp_path, undisturbed, capsys, monkeypatch
):
    kills, grid, tasks = 3, GRID, len(METHODS) * SEEDS * 4
    if KILLS:
        kills, grid, tasks = KILLS, ["split-digits", "--methods", "all", "--seeds", "3"], len(REGISTRY) * 3 * 9
        whole = Bench(tmp_path / "whole", *grid, "--jobs", "2")
        assert whole.start().communicate()
        undisturbed = whole.root
    bench = Bench(tmp_path / "killed", *grid, "--jobs", "2")
    moments, target, finished = random.Random(0), 0, {}
    for _ in range(kills):
        target += moments.randint(0, tasks // (kills + 1))
        process = bench.start()
        bench.wait_for_tasks(target, process)
        time.sleep(moments.uniform(0, 0.05))
        assert process.poll() is None, process.communicate()[1]
        kill_group(process)
        finished |= bench.finished()
    process = bench.start()
    _, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err
    assert finished, "every kill came before the first run was finished: half of this was not tested"
    assert bench.finished().items() >= finished.items()
    ends = bench.ends()
    assert len(ends) == len(set(ends)) >= len(finished) - kills
    assert results(bench.root) == results(undisturbed)
    assert table(capsys, monkeypatch, bench.root) == table(capsys, monkeypatch, undisturbed)


def test_two_commands_share_a_folder(tmp_path, undisturbed):
    bench = Bench(tmp_path, *GRID, "--jobs", "2")
    one, other = bench.start(), bench.start()
    for process in (one, other):
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
    ends = bench.ends()
    assert len(ends) == len(set(ends)) == len(METHODS) * SEEDS
    assert results(bench.root) == results(undisturbed)


def test_what_a_killed_worker_was_at_is_done_by_another(tmp_path, undisturbed):
    bench = Bench(tmp_path, *GRID, "--jobs", "2")
    process = bench.start()
    bench.wait_for_tasks(1, process)
    os.kill(workers(process)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert results(bench.root) == results(undisturbed)
    assert len(bench.ends()) == len(set(bench.ends()))


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGKILL"])
def test_workers_end_with_their_command_and_the_same_command_continues(tmp_path, undisturbed, how):
    bench = Bench(tmp_path, *GRID, "--jobs", "2")
    process = bench.start()
    bench.wait_for_tasks(2, process)
    children = workers(process)
    assert len(children) == 2
    asked = time.monotonic()
    if how == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert err.splitlines()[-1] == "protoreplay: interrupted; the same command continues"
        assert "Traceback" not in err
    else:
        process.kill()
        process.communicate(timeout=60)
    while any(os.path.exists(f"/proc/{pid}") for pid in children):  # noqa: PTH110
        assert time.monotonic() - asked < 5
        time.sleep(0.01)
    for lock in list(bench.root.rglob(".lock")):
        with RunFolder(lock.parent).locked():
            pass
    assert 2 <= bench.tasks() < 24
    execute_grid(resolve_grid("split-digits", METHODS, list(range(SEEDS)), SETTINGS), bench.root)
    assert results(bench.root) == results(undisturbed)


def test_a_failing_run_is_listed_and_tried_again(tmp_path, undisturbed):
    bench = Bench(tmp_path, *GRID, "--jobs", "2")
    good, bad = (root / "sgd,epochs=6,tasks=4/seed-1" for root in (undisturbed, bench.root))
    bad.mkdir(parents=True)
    for name in ("config.json", "shots.json"):
        (bad / name).write_bytes((good / name).read_bytes())
    (bad / "checkpoint.safetensors").write_bytes(b"\0" * 100)
    process = bench.start()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1
    assert out.startswith("method ")
    lines = [line for line in err.splitlines() if line.startswith("protoreplay: ")]
    assert lines[0].startswith("protoreplay: sgd,epochs=6,tasks=4 seed 1 failed: ")
    assert "checkpoint.safetensors is damaged" in lines[0]
    assert lines[1] == "protoreplay: 1 runs failed; see their error.txt; the same command tries them again"
    assert "Traceback" in (bad / "error.txt").read_text()
    assert len(bench.finished()) == len(METHODS) * SEEDS - 1
    (bad / "checkpoint.safetensors").unlink()
    execute_grid(resolve_grid("split-digits", METHODS, list(range(SEEDS)), SETTINGS), bench.root)
    assert results(bench.root) == results(undisturbed)
