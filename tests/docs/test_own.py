"""docs/examples/own.py: a method, an encoder and a dataset of a stranger's go through every command unchanged."""

import shutil
import sys
from pathlib import Path

import pytest

from protoreplay import cli
from protoreplay.testing import check_method
from tests.experiments.grids import Bench, kill_group, results

OWN = Path(__file__).parents[2] / "docs" / "examples" / "own.py"
TRAINED = ["vpr-paper", "ewc", "mas", "icarl", "replay"]
QUICK = ["--set", "tasks=3", "--set", "epochs=2", "--set", "samples=3", "--set", "dim=16", "--set", "shots=6"]
GRID = ["split:own.py:waves", "--methods", ",".join(["own.py:FeCAM", *TRAINED]), "--seeds", "1"]
GRID += ["--set", "encoder=own.py:SmallResNet", *QUICK]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the stranger works: nothing but the file, named by a relative path."""
    shutil.copy(OWN, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["protoreplay", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code, words


def test_the_method_passes_the_battery():
    check_method(f"{OWN}:FeCAM")


def test_every_command_takes_it_and_workers_give_the_same(folder, monkeypatch, capsys):
    command(monkeypatch, "bench", *GRID, "--out", "one")
    command(monkeypatch, "bench", *GRID, "--out", "workers", "--jobs", "2")
    assert results(folder / "workers") == results(folder / "one")
    capsys.readouterr()
    command(monkeypatch, "table", "one", "--format", "json")
    table = capsys.readouterr().out
    assert "FeCAM" in table
    told = [path.read_text() for path in (folder / "one").rglob("events.jsonl")]
    assert len(told) == 1 + len(TRAINED)
    assert not any("NaN" in events or "Infinity" in events for events in told), "a loss is not a number"
    command(monkeypatch, "report", "one", "-o", "report.html")
    assert "FeCAM" in (folder / "report.html").read_text()
    command(
        monkeypatch, "tune", "split:own.py:waves", "--method", "own.py:FeCAM", "--seeds", "1", "--set", "shots=4",
        "--set", "encoder=own.py:SmallResNet", "--out", "tuned",
    )  # fmt: skip
    assert "shrink=" in capsys.readouterr().out


FROZEN = """
protocol = "split:own.py:waves"
methods = ["own.py:FeCAM", "slda", "replay"]
seeds = [7]
encoder = "own.py:SmallResNet"
out = "frozen"
report = "frozen.html"

[settings]
tasks = 3
shots = 6
epochs = 2
"""


def test_frozen_its_encoder_feeds_its_method_from_a_file_of_the_grid_and_on_ray(folder, monkeypatch, capsys):
    pytest.importorskip("ray", reason="the package ray is not installed")
    (folder / "grid.toml").write_text(FROZEN)
    command(monkeypatch, "bench", "--grid", "grid.toml")
    command(monkeypatch, "bench", "--grid", "grid.toml", "--out", "ray", "--engine", "ray", "--jobs", "1")
    assert len(results(folder / "frozen")) > 0
    assert results(folder / "ray") == results(folder / "frozen")
    assert "split:own.py:waves on own.py:SmallResNet" in (folder / "frozen.html").read_text()
    capsys.readouterr()
    command(
        monkeypatch, "tune", "split:own.py:waves", "--method", "own.py:FeCAM", "--seeds", "1", "--set", "shots=4",
        "--encoder", "own.py:SmallResNet", "--tasks", "2", "--vary", "shrink=0.1,1", "--out", "tuned",
        "--store", "found.json",
    )  # fmt: skip
    assert "shrink=" in capsys.readouterr().out
    words = ["bench", "split:own.py:waves", "--methods", "own.py:FeCAM@found.json", "--encoder", "own.py:SmallResNet"]
    command(monkeypatch, *words, "--seeds", "1", "--set", "tasks=2", "--set", "shots=4", "--out", "again")


def test_killed_the_same_command_continues(folder, monkeypatch):
    words = [word.replace(",".join(TRAINED), "ewc,vpr-paper") for word in GRID]
    command(monkeypatch, "bench", *words, "--out", "whole")
    bench = Bench(folder / "killed", *words)
    process = bench.start()
    bench.wait_for_tasks(2, process)
    kill_group(process)
    bench.start().communicate(timeout=300)
    assert results(bench.root) == results(folder / "whole")
