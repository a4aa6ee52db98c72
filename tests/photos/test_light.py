"""The photo door needs no PyTorch and nothing else of the extra `research`: the default install has none of it."""

import json
import os
import subprocess
import sys

import pytest

from protoreplay import Classifier
from protoreplay.core.extras import RESEARCH_MODULES
from protoreplay.photos.answer_formats import answer_as_json
from tests.photos import fakes

HEAVY = (*sorted(RESEARCH_MODULES - {"jinja2"}), "pandas")  # jinja2 comes with the extra `serve`, too
BLOCK = (
    f"sys.modules.update(dict.fromkeys({HEAVY}))"  # importing a module that is None there fails as if it were absent
)
COMMAND = """
import sys
from protoreplay.cli import main
sys.argv = ["protoreplay", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
SAY = f"print('heavy:', [name for name in {HEAVY} if sys.modules.get(name)])"


def done_by(cache, code, *words):
    command = [sys.executable, "-c", f"import sys\n{code}", *map(str, words)]
    environment = {**os.environ, "PROTOREPLAY_CACHE": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def said(cache, code, *words):
    """What Python prints, and its last line, which names the heavy modules it has loaded."""
    done = done_by(cache, f"{code}\n{SAY}", *words)
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


def test_without_the_extra_the_answers_are_the_same(tmp_path):
    photos = fakes.photos(tmp_path / "photos", 3)
    script = f"{BLOCK}\n{COMMAND}"
    said(tmp_path, script, "learn", tmp_path / "m", photos, "--encoder", "lite0@32")
    lines, _ = said(tmp_path, script, "predict", tmp_path / "m", photos, "--format", "json", "--no-cache")
    here = Classifier("lite0@32", cache=False)
    here.learn(fakes.pixels(photos))
    assert "torch" in sys.modules
    asked = [path for some in fakes.pixels(photos).values() for path in some]
    for line, answer in zip(map(json.loads, lines), here.predict(asked), strict=True):
        expected = json.loads(answer_as_json(answer))
        assert (line["photo"], line["label"]) == (expected["photo"], expected["label"])
        for one, other in zip(line["choices"], expected["choices"], strict=True):
            assert one.pop("label") == other.pop("label")
            assert one == pytest.approx(other, rel=1e-6, abs=1e-6)


def test_without_the_extra_research_says_how_to_get_it(tmp_path):
    script = f"{BLOCK}\nfrom protoreplay.cli import main\nmain()"
    for words in (["bench", "split-digits"], ["data", "ls"], ["report", "runs", "-o", "page.html"]):
        done = done_by(tmp_path, script, *words)
        assert done.returncode == 2
        assert done.stderr == (
            "protoreplay: this command needs PyTorch, which is not installed: pip install 'protoreplay[research]'\n"
        )
    done = done_by(tmp_path, f"{BLOCK}\nimport protoreplay; protoreplay.PrototypeClassifier")
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: protoreplay.PrototypeClassifier needs scikit-learn, which is not installed: "
        "pip install 'protoreplay[research]'"
    )


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
