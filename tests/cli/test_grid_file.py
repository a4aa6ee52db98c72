import runpy
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from protoreplay.cli import app
from protoreplay.core.errors import UserError

PAPER = """
protocol = "split-digits"
methods = ["nearest-mean", "slda"]
seeds = [0, 3]
out = "runs"

[settings]
tasks = 2

[vary]
shrinkage = [0.1, 0.5]

[[table]]
metrics = ["base", "novel", "hm"]
format = "latex"
file = "tables/main.tex"

[[table]]
metrics = ["avg"]

[figures]
folder = "figures"
width = "84mm"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_one_file_and_one_command_repeat_a_comparison(here):
    Path("paper.toml").write_text(PAPER)
    done = run("bench", "--grid", "paper.toml")
    assert done.exit_code == 0
    assert len(list(here.glob("runs/*/seed-*/counts.csv"))) == 6
    latex = Path("tables/main.tex").read_text()
    assert r"\begin{tabular}" in latex
    assert "harmonic" not in latex
    assert "HM" in latex
    assert "avg %" in done.stdout
    assert list(here.glob("figures/*-accuracy.pdf"))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("protocol = ", "paper.toml is not a TOML file"),
        ("methods = ['slda']", "paper.toml: the key `protocol` is missing"),
        ("protocol = 'split-digits'\nmethod = 'a'", "unknown setting 'method' of paper.toml"),
        ("protocol = 'split-digits'\n[table]\nmetrics = ['best']", "unknown metric 'best'"),
        ("protocol = 'split-digits'\n[figures]\nwidth = 'wide'", "--width wide: write a length"),
    ],
)
def test_a_mistake_in_it_is_one_line(text, message):
    Path("paper.toml").write_text(text)
    with pytest.raises(UserError, match=message):
        run("bench", "--grid", "paper.toml")
    with pytest.raises(UserError, match="defines the runs"):
        run("bench", "split-digits", "--grid", "paper.toml")


def test_a_new_method_passes_its_test_which_is_the_battery(here):
    done = run("new-method", "my-mean", "--out", "own")
    assert done.stdout.split() == ["own/my_mean.py", "own/test_my_mean.py"]
    assert "class MyMean(Method[MyMeanConfig])" in Path("own/my_mean.py").read_text()
    tests = [test for name, test in runpy.run_path("own/test_my_mean.py").items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
    bench = ["bench", "split-digits", "--methods", "own/my_mean.py:MyMean", "--seeds", "1", "--set", "tasks=2"]
    assert "MyMean" in run(*bench).stdout
    with pytest.raises(UserError, match=r"own/my_mean\.py already exists"):
        run("new-method", "my-mean", "--out", "own")
    with pytest.raises(UserError, match="3x: a method's name must start"):
        run("new-method", "3x")
