"""Nothing is reported: no look-up, no connection, no file but ours (the promise of docs/security.md)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import protoreplay
from tests.cli import empty_network
from tests.photos import fakes

CALL = [sys.executable, "-m", "protoreplay.cli"]


class Alone:
    """A user with an empty home, in a namespace without a network."""

    def __init__(self, place: Path) -> None:
        self.home, self.log = place / "home", place / "sink.log"
        self.home.mkdir()

    def run(self, *command: str) -> subprocess.CompletedProcess:
        ours = ("HOME", "PATH", "LANG", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if name in ours}
        environment |= {"HOME": str(self.home), "PYTHONPATH": str(Path(protoreplay.__file__).parents[1])}
        environment |= {"OMP_NUM_THREADS": "1"}
        sink = [sys.executable, empty_network.__file__, str(self.log)]
        words = ["unshare", "--map-root-user", "--net", "--mount", *sink, *command]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)

    def heard(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def strange_files(self) -> list[str]:
        found = (path.relative_to(self.home) for path in self.home.rglob("*") if not path.is_dir())
        return sorted(str(path) for path in found if path.parts[:2] != (".cache", "protoreplay"))


@pytest.fixture
def alone(tmp_path):
    alone = Alone(tmp_path)
    try:
        done = alone.run("true")
    except FileNotFoundError:
        pytest.skip("not shown here: `unshare` is missing, so there is no empty network to run in")
    if done.returncode:
        pytest.skip(f"not shown here: this system makes no network namespace ({' '.join(done.stderr.split())[-200:]})")
    return alone


def test_the_sink_hears_look_ups_and_connections(alone):
    call = "import socket; socket.create_connection(('reports.example', 443), timeout=20)"
    done = alone.run(sys.executable, "-c", call)
    assert done.returncode == 0, done.stderr
    assert "looked up reports.example" in alone.heard()
    assert "connected to 192.0.2.1 port 443" in alone.heard()


SERVED = """
import http.client, re, subprocess, sys
server = subprocess.Popen([*sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in server.stdout:
    if found := re.search(r"http://127.0.0.1:(\\d+)", line):
        break
asking = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
asking.request("GET", "/")
asking.getresponse().read()
server.terminate()
server.communicate(timeout=60)
"""


def test_photos_report_nothing(alone, tmp_path, tiny):
    photos = fakes.photos(tmp_path / "photos")
    model = str(tmp_path / "m.protoreplay")
    for words in (
        [*CALL, "learn", model, str(photos), "--encoder", tiny],
        [*CALL, "predict", model, str(photos / "red"), "--encoder", tiny],
        [sys.executable, "-c", SERVED, *CALL, "serve", model, "--port", "0", "--encoder", tiny],
    ):
        done = alone.run(*words)
        assert done.returncode == 0, done.stderr
        assert (alone.heard(), alone.strange_files()) == ([], [])


def test_photos_on_ray_report_nothing(alone, tmp_path, tiny):
    pytest.importorskip("ray", reason="the package ray is not installed")
    photos, model = fakes.photos(tmp_path / "photos"), str(tmp_path / "m.protoreplay")
    assert alone.run(*CALL, "learn", model, str(photos), "--encoder", tiny).returncode == 0
    words = [
        "predict",
        model,
        str(photos / "red"),
        "--engine",
        "ray",
        "--work",
        str(tmp_path / "work"),
        "--encoder",
        tiny,
    ]
    done = alone.run(*CALL, *words)
    assert done.returncode == 0, done.stderr
    assert (alone.heard(), alone.strange_files()) == ([], [])


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_grids_report_nothing(alone, tmp_path, engine):
    if engine == "ray":
        pytest.importorskip("ray", reason="the package ray is not installed")
    words = ["bench", "split-digits", "--methods", "nearest-mean", "--seeds", "1", "--set", "tasks=2"]
    done = alone.run(*CALL, *words, "--engine", engine, "--out", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    assert (alone.heard(), alone.strange_files()) == ([], [])


def test_onnxruntime_imported_before_us_is_silenced_too(monkeypatch):
    said = []
    monkeypatch.setitem(
        sys.modules, "onnxruntime", type("Other", (), {"disable_telemetry_events": lambda: said.append(1)})
    )
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    protoreplay.core.silence.keep_silent()
    assert (said, os.environ["ORT_DISABLE_TELEMETRY"]) == ([1], "1")
