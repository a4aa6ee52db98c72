"""The table "Inside the package" of docs/extending.md: each row is done to a copy of the package, and used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()
TABLE = PAGE[PAGE.index("## Inside the package") :]

METHOD = PAGE[PAGE.index("import torch\nfrom torch import Tensor") : PAGE.index('METHODS.register("brightness"')]


@pytest.fixture
def package(tmp_path):
    """A copy of the package that can be changed."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src" / "protoreplay"


def insert(path, before, line):
    """The one edit that a row allows: a line, before the first one that has `before` in it."""
    text = path.read_text()
    assert before in text, f"{path.name} has no {before}"
    path.write_text(text.replace(before, f"{line}{before}", 1))


def use(package, *words):
    """A command with the changed package."""
    code = "from protoreplay.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=package.parents[1],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_names_files_that_exist():
    named = re.findall(r"`([\w/]+\.py)`", TABLE)
    assert len(named) > 8
    for name in named:
        if "NAME" not in name:
            places = [ROOT / "src/protoreplay" / name, ROOT / "src/protoreplay/methods" / name, ROOT / name]
            assert any(place.exists() for place in places), name


def test_a_method_is_one_file_and_one_line(package):
    (package / "methods" / "brightness.py").write_text(METHOD)
    line = '        "brightness": "protoreplay.methods.brightness:Brightness",\n'
    insert(package / "methods" / "registry.py", '        "sgd":', line)
    assert "nearest mean brightness" in use(package, "methods")
    assert "brightness" in use(package, "bench", "split-digits", "--methods", "brightness", "--seeds", "1")


def test_an_encoder_is_one_function_and_one_line(package):
    with (package / "encoders" / "trunks.py").open("a") as file:
        file.write(
            "\n\ndef mean_pixel(shape: ImageShape) -> nn.Sequential:\n"
            '    """The mean of each channel."""\n'
            "    return nn.Sequential(UnitPixels(), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
        )
    line = '        "mean-pixel": EncoderEntry("trained", "the mean of each channel", f"{_TRUNKS}:mean_pixel"),\n'
    insert(package / "encoders" / "registry.py", '        "lenet":', line)
    assert "mean-pixel" in use(package, "encoders", "--quick")
    words = ["--set", "encoder=mean-pixel", "--set", "tasks=2", "--set", "epochs=1"]
    assert "sgd" in use(package, "bench", "split-digits", "--methods", "sgd", "--seeds", "1", *words)


def test_a_dataset_is_one_file_and_one_entry_and_a_protocol_one_entry(package):
    code = PAGE[PAGE.index("def squares() -> Dataset:") : PAGE.index('DATASETS.register("squares"')]
    head = "import torch\n\nfrom protoreplay.data.images import Dataset, ImageSet\n\n\n"
    (package / "data" / "squares.py").write_text(head + code.replace("def squares()", "def load()"))
    catalog = package / "data" / "catalog.py"
    line = '    DatasetEntry("squares", "two kinds of squares", lambda size: squares.load()),\n'
    insert(catalog, '    DatasetEntry("digits"', line)
    insert(catalog, "from protoreplay.data.images", "from protoreplay.data import squares\n")
    assert "two kinds of squares" in use(package, "data", "ls")
    entry = PAGE[PAGE.index("protocol = Protocol(") : PAGE.index("PROTOCOLS.register(")].removeprefix("protocol = ")
    lines = "".join(f"    {row}\n" for row in f"{entry.rstrip()},".splitlines())
    insert(package / "streams" / "protocols.py", '    Protocol(\n        "split-digits"', lines)
    assert "split-squares" in use(package, "protocols")
    assert "nearest-mean" in use(package, "bench", "split-squares", "--methods", "nearest-mean", "--seeds", "1")


def test_a_figure_is_one_function_and_one_entry(package):
    figures = package / "report" / "figures.py"
    name, kind = re.search(r"^FIGURES: dict\[str, (\w+)\] = {", figures.read_text(), flags=re.MULTILINE), None
    kind = name[1]
    insert(
        figures,
        "FIGURES: dict",
        "def seeds_used(groups: Sequence[Group], narrow: bool = False) -> Figure:\n"
        '    """How many seeds each method has."""\n'
        "    figure = Figure(figsize=(4, 3))\n"
        "    figure.subplots().bar([group.label for group in groups], [len(group.results) for group in groups])\n"
        "    return figure\n\n\n",
    )
    entry = f'    "seeds": {kind}("Seeds used", "Runs of each method.", seeds_used, lambda groups: "Bars of seeds."),\n'
    insert(figures, '    "accuracy":', entry)
    use(package, "bench", "split-digits", "--methods", "nearest-mean", "--seeds", "1", "--out", "runs")
    use(package, "report", "runs", "-o", "report.html")
    assert "Seeds used" in (package.parents[1] / "report.html").read_text()


def test_a_command_is_one_function(package):
    module = package / "cli" / "list_commands.py"
    with module.open("a") as file:
        file.write('\n\n@lists_app.command()\ndef hello() -> None:\n    """Say hello."""\n    print("hello")\n')
    assert use(package, "hello") == "hello\n"
    assert "Say hello." in use(package, "--help")
