import doctest
import importlib
import pkgutil
import re
import shlex
import sys
from pathlib import Path

import pytest
from PIL import Image

import protoreplay
from protoreplay import cli
from protoreplay.data import catalog

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line.split("#")[0] for _, block in BLOCKS for line in block.splitlines() if line.startswith("protoreplay ")]


def test_the_library_example_runs(capsys):
    examples = [code for language, code in BLOCKS if language == "python"]
    assert examples
    for code in examples:
        exec(code, {})
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\['\d+%', '\d+%', '\d+%'\]", printed[0])
    assert [line.split()[0] for line in printed[1:]] == [
        *("classes", "body", "layer", "prototypes", "domains", "calibration", "memory")
    ]


def test_every_command_shown_runs(monkeypatch, tmp_path, small_cache):
    """In order, as a reader would; with fewer and shorter tasks, on stand-ins for what would be downloaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("protoreplay.data.catalog.get", lambda name, progress: catalog.cache_file(name).path)
    monkeypatch.setattr("protoreplay.data.catalog.import_from", lambda name, path, progress: path)
    for colour in ("red", "blue"):
        (tmp_path / "photos" / colour).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (20, 20), colour).save(tmp_path / "photos" / colour / f"{number}.png")
    assert len(COMMANDS) > 5
    for command in COMMANDS:
        words = shlex.split(command)
        if words[1] in ("run", "bench", "ablate"):
            words += ["--set", f"tasks={1 if 'photos' in command else 2}"]
            words += ["--set", "epochs=1"] if "sgd" in command or words[1] == "ablate" else []
            words += ["--seeds", "1", "--jobs", "1"] if words[1] == "ablate" else []
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code, command
    assert (tmp_path / "report.html").exists()


def test_the_examples_in_docstrings_are_true():
    tried = 0
    for module in pkgutil.walk_packages(protoreplay.__path__, "protoreplay."):
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, module.name
        tried += result.attempted
    assert tried >= 4
