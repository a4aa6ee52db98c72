"""No input of less than a megabyte makes a command or the server take more than a gigabyte of memory.

`PROTOREPLAY_BOMBS=1 pytest tests/cli/test_memory_budget.py` tries every bomb of `tests/bombs.py`, each alone, too.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
import requests

from tests import bombs
from tests.photos import fakes
from tests.photos.serve.fakes import files
from tests.photos.serve.served import running

BUDGET = 2**30
ALL = bool(os.environ.get("PROTOREPLAY_BOMBS"))


def peak_of(*words):
    """The exit code of a command, what it said, and the most memory that it had."""
    process = subprocess.Popen(
        [sys.executable, "-m", "protoreplay.cli", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = process.stdout.read().decode()
    process.stdout.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, said, used.ru_maxrss * 1024


def some_bombs():
    """Those that are made in a moment."""
    return {
        "webp-beyond": bombs.webp(16_383, 16_383),
        "webp": bombs.webp(bombs.SIDE, bombs.SIDE),
        "tiff-tile": bombs.tiled_tiff(32_768),
        "png16": bombs.png(bombs.SIDE, bombs.SIDE, 16, 0),
        "ico": bombs.icon(bombs.png(14_000, 14_000, 1, 0)),
        "icns": bombs.icns(bombs.png(14_000, 14_000, 1, 0)),
    }


@pytest.fixture(scope="module")
def contents():
    return bombs.all_bombs() if ALL else some_bombs()


@pytest.fixture
def model(protoreplay, tiny, tmp_path):
    fakes.photos(tmp_path / "photos", 2)
    assert protoreplay("learn", "m", "photos", "--encoder", tiny)[0] == 0
    return tmp_path / "m"


def test_pictures_at_the_command_line(model, contents, tiny):
    folder = model.parent / "bombs"
    folder.mkdir()
    for name, content in contents.items():
        assert len(content) < 2**20
        for copy in range(3):
            (folder / f"{name}-{copy}").write_bytes(content)
    names = [folder, *(folder / f"{name}-0" for name in contents if ALL)]
    for path in names:
        code, said, peak = peak_of("predict", model, path, "--no-cache", "--encoder", tiny)
        assert peak < BUDGET, (path, peak)
        assert code in (0, 2), said
        assert "Traceback" not in said
    with zipfile.ZipFile(model.with_name("bombs.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for copy in range(3):
            archive.writestr(f"zeros-{copy}.png", bytes(250 * 2**20))
    code, said, peak = peak_of("predict", model, model.with_name("bombs.zip"), "--no-cache", "--encoder", tiny)
    assert (code, said.count("not a picture")) == (2, 3), said
    assert peak < BUDGET


def test_pictures_sent_to_the_server(tiny, tmp_path, contents):
    with running(tmp_path / "m", "--encoder", tiny, "--no-token") as (process, address):
        taught = requests.post(f"{address}api/learn", data={"label": "red"}, files=files("red"), timeout=120)
        assert taught.status_code == 200
        statuses = []

        def send(path, content):
            sent = [("photos", ("p", content))] * 4
            with contextlib.suppress(requests.ConnectionError):
                answer = requests.post(f"{address}api/{path}", data={"label": "b"}, files=sent, timeout=300)
                statuses.append(answer.status_code)

        paths = ("predict", "learn", "lessons")
        senders = [threading.Thread(target=send, args=(p, content)) for content in contents.values() for p in paths]
        for one in senders:
            one.start()
        for one in senders:
            one.join(300)
        assert set(statuses) <= {200, 202, 413, 422, 429, 503}
        assert len(statuses) == len(senders)
        peak = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) * 1024
        assert peak < BUDGET


def hostile_archives(place):
    table = b"filename,label\n" + b"a.jpg,x\n" * 4_000_000
    for name, method in (("tables.zip", zipfile.ZIP_DEFLATED), ("tables-bzip2.zip", zipfile.ZIP_BZIP2)):
        with zipfile.ZipFile(place / name, "w", method) as archive:
            for part in ("train", "val", "test") if method == zipfile.ZIP_DEFLATED else ("train",):
                archive.writestr(f"{part}.csv", table)
    with tarfile.open(place / "images.tar.gz", "w:gz") as archive:
        for name, content in [(f"images/{n}.jpg", bytes(20 * 2**20)) for n in range(15)]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        rows = "filename,label\n" + "".join(f"{n}.jpg,{n // 5}\n" for n in range(15))
        for part in ("train", "val", "test"):
            member = tarfile.TarInfo(f"{part}.csv")
            content = rows.encode() if part == "train" else b"filename,label\n0.jpg,x\n"
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return sorted(place.iterdir())


def test_archives(tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "cache"))
    (tmp_path / "archives").mkdir()
    for path in hostile_archives(tmp_path / "archives"):
        assert path.stat().st_size < 2**20
        code, said, peak = peak_of("data", "import", "mini-imagenet", path)
        assert code == 2, said
        assert "Traceback" not in said
        assert peak < BUDGET, (path, peak)
