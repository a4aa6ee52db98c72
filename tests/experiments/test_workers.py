import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from protoreplay import cli
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.spec import resolve_grid
from protoreplay.experiments.workers import in_workers
from protoreplay.methods.registry import METHODS
from tests.experiments.grids import Bench, kill_group, results, workers

KILLS = int(os.environ.get("PROTOREPLAY_KILLS", "0"))
"""With it, the whole of what must hold: so many kills of a grid of all methods with 3 seeds, in several minutes."""

NAMES, SEEDS = ["vpr-paper", "sgd", "nearest-mean"], 2
SETTINGS = {"tasks": "4", "epochs": "6", "samples": "4"}
WORDS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
SPECS = resolve_grid("split-digits", NAMES, list(range(SEEDS)), SETTINGS)


def words(methods):
    return ["split-digits", "--methods", ",".join(methods), "--seeds", str(SEEDS), *WORDS]


GRID = words(NAMES)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    execute_grid(SPECS, root)
    return root


def table(capsys, monkeypatch, root):
    """`table --format json` without the times."""
    monkeypatch.setattr(sys, "argv", ["protoreplay", "table", str(root), "--format", "json"])
    with pytest.raises(SystemExit):
        cli.main()
    rows = json.loads(capsys.readouterr().out)
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]


def wait_until_gone(pids):
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "workers outlive their command"
        time.sleep(0.01)


def interrupt(process, how):
    """End a command by SIGKILL of its process group, of the command alone, or by Ctrl-C at a terminal."""
    children = workers(process)
    if how == "group":
        kill_group(process)
    elif how == "command":
        process.kill()
        process.communicate(timeout=300)
        wait_until_gone(children)
    else:
        asked = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - asked < 10
        wait_until_gone(children)
        assert process.returncode == 130
        assert err.splitlines()[-1] == "protoreplay: interrupted; the same command continues"
        assert "Traceback" not in err, err


def test_interrupted_at_random_moments_the_table_is_the_same_and_nothing_is_done_twice(
    tmp_path, undisturbed, capsys, monkeypatch
):
    # The longest method last: when the first run is finished, there is work for seconds to come.
    ways, grid, tasks = ["group", "command", "Ctrl-C"], words(reversed(NAMES)), len(NAMES) * SEEDS * 4
    if KILLS:
        ways, grid, tasks = ["group"] * KILLS, ["split-digits", "--methods", "all"], len(METHODS.names()) * 3 * 9
        whole = Bench(tmp_path / "whole", *grid, "--jobs", "2")
        whole.start().communicate(timeout=3600)
        undisturbed = whole.root
    bench = Bench(tmp_path / "interrupted", *grid, "--jobs", "2")
    moments, target, finished = random.Random(0), 1, {}
    for left, how in zip(range(len(ways) - 1, -1, -1), ways, strict=True):
        before, process = bench.tasks(), bench.start()
        # Of workers and of Ctrl-C something can be said once the command is at work.
        bench.wait_for_tasks(target if how == "group" else before + 1, process)
        if not left:
            bench.wait_for(lambda: bool(bench.finished()), process)
        time.sleep(moments.uniform(0, 0.05))
        assert process.poll() is None, process.communicate(timeout=300)[1]
        interrupt(process, how)
        finished |= bench.finished()
        for path in bench.root.rglob("config.json"):
            with RunFolder(path.parent).locked():  # a UserError if anybody still holds it
                pass
        target += moments.randint(0, tasks // (len(ways) + 1))
    process = bench.start()
    _, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err
    assert finished, "every kill came before the first run was finished: half of this was not tested"
    assert bench.finished().items() >= finished.items()
    ends = bench.ends()
    assert len(ends) == len(set(ends)) >= len(bench.finished()) - len(ways)
    assert results(bench.root) == results(undisturbed)
    assert table(capsys, monkeypatch, bench.root) == table(capsys, monkeypatch, undisturbed)


def test_workers_that_cannot_start_are_one_line_that_says_why(tmp_path, monkeypatch):
    """As in a script without the usual guard, or one that comes from standard input."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.setattr(main, "__file__", str(tmp_path / "gone.py"), raising=False)
    with pytest.raises(UserError, match=r'ended as it started \(exit code 1\).*if __name__ == "__main__":'):
        execute_grid(SPECS[:2], tmp_path / "runs", engine=partial(in_workers, jobs=1))


def test_two_commands_share_a_folder(tmp_path, undisturbed):
    processes = [Bench(tmp_path, *GRID, "--jobs", jobs).start() for jobs in ("1", "2")]
    for process in processes:
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
    bench = Bench(tmp_path)
    assert len(bench.ends()) == len(set(bench.ends())) == len(NAMES) * SEEDS
    assert results(bench.root) == results(undisturbed)


def test_a_failed_run_is_listed_and_tried_again_a_lost_one_is_done_by_another_worker(tmp_path, undisturbed):
    bench = Bench(tmp_path, *GRID, "--jobs", "2")
    good, bad = (root / "sgd,epochs=6,tasks=4/seed-1" for root in (undisturbed, bench.root))
    bad.mkdir(parents=True)
    for name in ("config.json", "shots.json"):
        (bad / name).write_bytes((good / name).read_bytes())
    (bad / "confusion.csv").mkdir()  # where a file has to be written
    process = bench.start()
    bench.wait_for_tasks(1, process)
    os.kill(workers(process)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1
    assert out.startswith("method ")
    assert "died (exit code -9); once more" in err
    lines = [line for line in err.splitlines() if line.startswith("protoreplay: ")]
    assert lines[0].startswith("protoreplay: sgd,epochs=6,tasks=4 seed 1 failed: ")
    assert "confusion.csv" in lines[0]
    assert lines[1:] == ["protoreplay: 1 run failed: see its error.txt; the same command tries again"]
    assert "Traceback" in (bad / "error.txt").read_text()
    assert len(bench.ends()) == len(set(bench.ends())) == len(NAMES) * SEEDS - 1
    (bad / "confusion.csv").rmdir()
    execute_grid(SPECS, bench.root)
    assert results(bench.root) == results(undisturbed)


def test_a_stopped_worker_is_noticed(tmp_path):
    bench = Bench(tmp_path, *GRID, "--jobs", "2")
    process = bench.start()
    bench.wait_for_tasks(1, process)
    stopped, *_ = workers(process)
    os.kill(stopped, signal.SIGSTOP)
    said = ""
    while f"kill -CONT {stopped}" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    os.kill(stopped, signal.SIGCONT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (said + err).count("was stopped") == 1
