"""A folder with every oddity goes through the commands: nothing is lost, and each odd file is named once."""

import csv
import hashlib
import json
from collections import Counter

import pytest

from protoreplay.photos import model_file
from tests.photos.odd_folder import make_odd_folder

PACKED = "blue 🐦/more.zip"


@pytest.fixture
def odd(tmp_path):
    return make_odd_folder(tmp_path / "odd")


@pytest.fixture
def learned(protoreplay, tiny, odd):
    """The lines of `learn`, whose model is `m`."""
    code, out, err = protoreplay("learn", "m", odd.path, "--encoder", tiny)
    assert code == 0, err
    return out, err


def named(text, odd):
    """How often each file of the folder is named at the beginning of a line."""
    lines = [line.split(": ")[0] for line in text.splitlines()]
    return Counter(line.removeprefix(f"{odd.path}/") for line in lines if line.startswith(f"{odd.path}/"))


def broken(text, odd):
    """The same of files alone; folders have something said of them, too."""
    return {name: times for name, times in named(text, odd).items() if name in (*odd.broken, *tree(odd.path))}


def tree(path):
    """Every file and link below a folder, with what it holds."""
    return {
        str(file.relative_to(path)): file.readlink()
        if file.is_symlink()
        else hashlib.sha256(file.read_bytes()).digest()
        for file in path.rglob("*")
        if file.is_symlink() or file.is_file()
    }


def test_check(protoreplay, tiny, odd):
    before = tree(odd.path)
    code, out, err = protoreplay("check", odd.path, "--encoder", tiny, "--format", "json")
    found = [json.loads(line) for line in out.splitlines()]
    unreadable = Counter(photo for one in found if one["kind"] == "unreadable" for photo in one["photos"])
    assert (code, unreadable) == (0, Counter(f"{odd.path}/{name}" for name in odd.broken)), err
    assert f"{len(odd.readable + odd.zipped + odd.broken)} photos of 2 classes" in err
    assert f"{odd.path}/empty has no photos of its own: passed over" in err
    assert tree(odd.path) == before


def test_learn(learned, odd, tmp_path):
    out, err = learned
    assert out.splitlines()[:2] == ["blue 🐦: 7 photos learned", "red: 10 photos learned"]
    taught = sum(own.count for own in model_file.read_model(tmp_path / "m").classes.values())
    assert taught == len(odd.readable + odd.zipped)
    assert broken(err, odd) == dict.fromkeys(odd.broken, 1)
    assert not any(name.rsplit("/")[-1] in err for name in odd.quiet)
    assert f"{odd.path}/red: 1 of 14 photos from folders below it" in err
    assert f"{odd.path}/blue 🐦: 2 of 9 photos from folders and zip files below it" in err
    assert f"{odd.path}/empty has no photos of its own: passed over" in err
    assert "clip.mp4: cannot be read, a video: save a picture of it as JPEG" in err
    assert "cut.zip: no zip file, or only a part of one" in err


def test_predict(protoreplay, learned, odd, tiny):
    code, out, err = protoreplay("predict", "m", "--encoder", tiny, odd.path)
    every = odd.readable + odd.zipped + odd.broken
    assert (code, named(out, odd)) == (2, Counter(every)), "each once, and nothing else"
    assert err.splitlines()[-1] == f"protoreplay: {len(odd.broken)} of {len(every)} photos could not be read"


def test_sort(protoreplay, learned, odd, tiny, tmp_path):
    before = tree(odd.path)
    code, out, err = protoreplay("sort", "m", "--encoder", tiny, odd.path, "-o", "sorted", "--move")
    moved = [line.split(" -> ") for line in out.splitlines()]
    assert code == 2, "some could not be sorted"
    assert Counter(old for old, _ in moved) == Counter(f"{odd.path}/{name}" for name in odd.readable)
    assert broken(err, odd) == dict.fromkeys([*odd.broken, PACKED], 1)
    left, sorted_ = tree(odd.path), tree(tmp_path / "sorted")
    assert left == {name: content for name, content in before.items() if name not in odd.readable}
    assert all(sorted_[new.removeprefix("sorted/")] == before[old.removeprefix(f"{odd.path}/")] for old, new in moved)
    assert protoreplay("sort", "--undo", "sorted")[0] == 0
    assert tree(odd.path) == before


def test_suggest(protoreplay, learned, odd, tiny):
    # A model that was taught one of these photos.
    assert protoreplay("learn", "few", odd.path / "red" / "2019", "--class", "red", "--encoder", tiny)[0] == 0
    code, out, err = protoreplay(
        "suggest", "few", "--encoder", tiny, odd.path, "-n", "99", "--format", "paths", "-o", "next"
    )
    suggested = Counter(line.removeprefix(f"{odd.path}/") for line in out.splitlines())
    assert code == 2
    assert set(suggested.values()) == {1}
    assert set(suggested) <= set(odd.readable)
    assert broken(err, odd) == dict.fromkeys([*odd.broken, PACKED], 1)


def test_evaluate(protoreplay, learned, odd, tiny, tmp_path):
    code, out, err = protoreplay(
        "evaluate", "m", "--encoder", tiny, odd.path, "--wrong", "wrong.csv", "--format", "json"
    )
    score = json.loads(out)
    assert (code, score["photos"], score["unreadable"]) == (0, len(odd.readable + odd.zipped), len(odd.broken))
    assert broken(err, odd) == dict.fromkeys(odd.broken, 1)
    with (tmp_path / "wrong.csv").open(encoding="utf-8", newline="") as file:
        listed = list(csv.DictReader(file))
    assert len(listed) == sum(own["refused"] + own["wrong"] for own in score["by_class"].values())
