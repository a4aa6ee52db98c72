"""The photo door needs no PyTorch and none of what comes with it: loading them takes longer than an answer."""

import os
import subprocess
import sys

import pytest

from tests.photos import fakes

HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "pandas")
COMMAND = """
import sys
from protoreplay.cli import main
sys.argv = ["protoreplay", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
SAY = f"print('heavy:', [name for name in {HEAVY} if name in sys.modules])"


def said(cache, code, *words):
    """What Python prints, and its last line, which names the heavy modules it has loaded."""
    command = [sys.executable, "-c", f"import sys\n{code}\n{SAY}", *map(str, words)]
    environment = {**os.environ, "PROTOREPLAY_CACHE": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    *lines, loaded = done.stdout.splitlines()
    return lines, loaded


@pytest.mark.parametrize(
    "code", ["import protoreplay.photos", "import protoreplay; protoreplay.Classifier", "import protoreplay.cli"]
)
def test_imports(tmp_path, code):
    assert said(tmp_path, code) == ([], "heavy: []")


def test_every_module_of_the_photo_door(tmp_path):
    code = """
import pkgutil, importlib, protoreplay.photos
for module in pkgutil.walk_packages(protoreplay.photos.__path__, "protoreplay.photos."):
    importlib.import_module(module.name)
from protoreplay.prototypes import prototype_head, sums
"""
    assert said(tmp_path, code) == ([], "heavy: []")


def test_commands_with_an_empty_cache(tmp_path):
    """The first one converts the encoder; none finds what another has kept but the model."""
    photos, model = fakes.photos(tmp_path / "photos", 3), tmp_path / "m"
    fresh = (tmp_path / f"cache {number}" for number in range(10))
    lines, loaded = said(next(fresh), COMMAND, "learn", model, photos, "--encoder", "lite0@32")
    assert (lines[0], loaded) == ("blue: 3 photos learned", "heavy: []")
    for command, words in {
        "predict": [photos / "red" / "000.png"],
        "evaluate": [photos],
        "show": ["--history"],
        "export": ["-o", tmp_path / "m.onnx"],
        "forget": ["blue"],
        "serve": ["--help"],
    }.items():
        lines, loaded = said(next(fresh), COMMAND, command, model, *words)
        assert lines, command
        assert loaded == "heavy: []", command
