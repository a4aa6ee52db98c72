"""Commands on a disk that fails: afterwards there is the old or the new state, whole, and one clear line was said.

`PROTOREPLAY_FAULTS=all pytest -s tests/cli/test_faults.py` fails every write, sync, rename and new folder of every
command with each of three errors, and prints how many; without it, a few of them are drawn.
"""

import errno
import os
import random
import shutil

import pytest
from fastapi.testclient import TestClient

from protoreplay.core.places import cache_folder
from protoreplay.data.catalog import dataset_file
from protoreplay.experiments.run_folder import RunFolder, find_run_folders
from protoreplay.photos import model_file
from protoreplay.photos.serve import app
from protoreplay.photos.serve.served_model import ServedModel
from tests.data import fakes as datasets
from tests.data.test_mini_imagenet import copy
from tests.faulty_disk import CODES, FaultyDisk
from tests.photos import fakes

FAULTS = os.environ.get("PROTOREPLAY_FAULTS", "6")


def faults(count):
    """Number and error of the operations that fail: all of them, or some, the first and the last among them."""
    every = [(number, code) for number in range(1, count + 1) for code in CODES]
    if FAULTS == "all" or len(every) <= int(FAULTS):
        return every
    drawn = random.Random(count).sample(every[1:-1], int(FAULTS) - 2)
    return [every[0], *sorted(drawn), every[-1]]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder that can be put back to how it was; caches are in it."""
    root = tmp_path / "disk"
    root.mkdir()
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(root / "cache"))
    return root


@pytest.fixture
def injected(place, tmp_path, monkeypatch, capsys):
    """Gives a function that does a thing on a failing disk, fault after fault, each time from the same start.

    `act` does it and gives an exit code and what was said; `whole` sees that the old or the new state is there. After
    each fault it is done again, on a good disk.
    """

    def inject(name, act, whole, exits=(0, 2)):
        start, done = tmp_path / "start", 0
        shutil.copytree(place, start, symlinks=True)

        def put_back():
            shutil.rmtree(place)
            shutil.copytree(start, place, symlinks=True)

        with FaultyDisk(place).at_work() as disk:
            assert act()[0] == 0
        whole(True)
        for number, code in faults(disk.count):
            put_back()
            with FaultyDisk(place, number, code).at_work() as faulty:
                exit_code, said = act()
            what = f"{name}, {errno.errorcode[code]} at {number} of {disk.count} ({faulty.failed}): {said}"
            assert faulty.failed, what
            assert exit_code in exits, what
            assert "Traceback" not in said, what
            if exit_code:
                assert said.splitlines()[-1].startswith("protoreplay: "), what
            whole(exit_code == 0)
            exit_code, said = act()
            assert exit_code == 0, f"again, after {what}: {said}"
            whole(True)
            done += 1
        with capsys.disabled():
            print(f"\n{name}: {done} faults at {disk.count} operations, nothing lost")

    return inject


def command(protoreplay, *words):
    def act():
        code, _, err = protoreplay(*words)
        return code, err

    return act


def names(path):
    return sorted(model_file.read_model(path).classes) if path.exists() else None


def leftovers(place):
    return [path for path in place.rglob("*.tmp") if path.is_file()]


def test_learn(protoreplay, injected, place, tiny, tmp_path):
    photos = fakes.photos(tmp_path / "photos", 2)
    assert protoreplay("learn", place / "m", photos / "red", "--class", "red", "--encoder", tiny)[0] == 0

    def whole(new):
        assert names(place / "m") in ([["blue", "green", "red"]] if new else [["red"], ["blue", "green", "red"]])
        assert not leftovers(place)

    injected("learn", command(protoreplay, "learn", place / "m", photos, "--encoder", tiny), whole)


def test_forget(protoreplay, injected, place, tiny, tmp_path):
    photos = fakes.photos(tmp_path / "photos", 2)
    assert protoreplay("learn", place / "m", photos, "--encoder", tiny)[0] == 0

    def act():
        code, _, err = protoreplay("forget", place / "m", "red")
        return (0, "") if "unknown class 'red'" in err else (code, err)  # the line came after the change

    def whole(new):
        there = names(place / "m")
        assert there in ([["blue", "green"]] if new else [["blue", "green"], ["blue", "green", "red"]])
        if "red" not in there:
            files = [path for path in place.rglob("*") if path.is_file() and path.name.startswith(("m", ".m"))]
            assert not any(b"red" in path.read_bytes() for path in files)

    injected("forget", act, whole)


def test_sort(protoreplay, injected, place, tiny, tmp_path):
    taught, asked = fakes.photos(tmp_path / "photos", 3), fakes.photos(place / "asked", 2, start=40)
    assert protoreplay("learn", tmp_path / "m", taught, "--encoder", tiny)[0] == 0
    contents = sorted(path.read_bytes() for path in asked.rglob("*.png"))

    def whole(new):
        here = [path for path in asked.rglob("*.png") if path.stat().st_size]
        there = [path for path in (place / "sorted").rglob("*.png") if path.stat().st_size]
        assert sorted(path.read_bytes() for path in [*here, *there]) == contents
        if new:
            assert not here

    def act():
        code, _, err = protoreplay("sort", tmp_path / "m", asked, "-o", place / "sorted", "--move", "--encoder", tiny)
        if "no photos" in err:
            return 0, ""  # all of them were sorted before the line came
        return code, err

    injected("sort", act, whole)


def test_bench(protoreplay, injected, place):
    words = ("--methods", "nearest-mean", "--seeds", 1, "--set", "tasks=2", "--set", "shots=2")

    def whole(new):
        folders = find_run_folders(place / "runs") if (place / "runs").is_dir() else []
        for folder in folders:
            folder.config(), folder.counts(), folder.events()
        if new:
            assert [folder.finished() for folder in folders] == [True]
            assert {path.name for path in folders[0].path.iterdir()} == {
                "calibration.csv",
                "config.json",
                "confusion.csv",
                "counts.csv",
                "events.jsonl",
                "shots.json",
                "top5.csv",
            }
            counts.add((folders[0].path / "counts.csv").read_bytes())

    counts = set()
    act = command(protoreplay, "bench", "split-digits", *words, "--out", place / "runs")
    injected("bench", act, whole, exits=(0, 1, 2))
    assert len(counts) == 1


def test_a_run_with_checkpoints(injected, place, monkeypatch):
    from protoreplay.experiments.run import execute
    from protoreplay.experiments.spec import resolve

    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    spec, counts = resolve("split-digits", "nearest-mean", 0, {"tasks": 3, "shots": 2}), set()

    def act():
        try:
            execute(spec, place / "run")
        except OSError as error:
            return 2, f"protoreplay: {error}"
        return 0, ""

    def whole(new):
        folder = RunFolder(place / "run")
        if folder.exists():
            folder.config(), folder.counts(), folder.events()
        if new:
            assert folder.finished()
            counts.add((place / "run" / "counts.csv").read_bytes())

    injected("run", act, whole)
    assert len(counts) == 1


def test_data_import(protoreplay, injected, place, monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOREPLAY_DATA", str(place / "data"))
    pictures = datasets.unpacked(tmp_path / "copy", copy())

    def whole(new):
        if new:
            dataset_file("mini-imagenet").verify()
        else:
            left = {path.name for path in (place / "data").rglob("*") if path.is_file() and path.suffix != ".lock"}
            assert left <= {"mini-imagenet.safetensors"}

    injected("data import", command(protoreplay, "data", "import", "mini-imagenet", pictures), whole)


def test_serve(injected, place, tiny, tmp_path):
    from protoreplay import Classifier

    photo = (fakes.photos(tmp_path / "photos", 1) / "red" / "000.png").read_bytes()
    Classifier(tiny).save(place / "m")

    def act():
        """A class is taught, by a server that starts with what is on the disk."""
        classifier = Classifier.load(place / "m", tiny)
        served = ServedModel(place / "m", classifier.encoder, classifier.state)
        api = app.create_app(served)
        with TestClient(api, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
            answer = client.post("/api/learn", data={"label": "red"}, files={"photos": ("p", photo)})
            assert sorted(served.current.model.classes) == (names(place / "m") or [])
        if answer.status_code == 200 or "known" in answer.text:
            return 0, ""
        assert answer.status_code != 500, answer.text
        return 2, f"protoreplay: {answer.json()['detail']}"

    def whole(new):
        assert names(place / "m") in ([["red"]] if new else [[], ["red"]])
        assert not leftovers(place)

    injected("serve", act, whole)


def test_the_disk_fails_as_it_should(tmp_path):
    """Of the shim itself: half of a write is there, a full disk stays full, any other fault comes once."""
    with FaultyDisk(tmp_path, 1, errno.EIO).at_work():
        with pytest.raises(OSError, match="Input/output"):
            (tmp_path / "a").write_bytes(b"1234")
        (tmp_path / "b").write_text("whole")
    assert (tmp_path / "a").read_bytes() == b"12"
    with FaultyDisk(tmp_path, 1, errno.ENOSPC).at_work():
        for name in "cd":
            with pytest.raises(OSError, match="No space"):
                (tmp_path / name).mkdir()
    assert cache_folder().name
