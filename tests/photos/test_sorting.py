"""Photos go into folders, nothing is overwritten or lost, and all of it can be taken back, whenever it was killed."""

import errno
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos import sort_log, sorting, xmp
from protoreplay.photos.answers import Answer, Choice
from tests.photos import fakes

KILLS = int(os.environ.get("PROTOREPLAY_KILLS", "3"))
CLASSES = ["blue", "green", "red"]


def tree(folder):
    """Every file, folder and link below, with its content."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def digests(folder):
    hidden = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in hidden)


def answer(photo, label="red", probability=0.9, known=True):
    return Answer(str(photo), label if known else None, (Choice(label, probability, 1.0),), 1.0 if known else -1.0)


@pytest.fixture
def photos(tmp_path):
    """Six photos, two of one name, one with a sidecar; what is said of them; and where they go."""
    home = tmp_path / "home"
    fakes.photos(home, 2)
    (home / "red" / "000.png.xmp").write_bytes(xmp.keyword_added(None, "old"))
    files, _ = sorting.photos_to_sort([home], home / "sorted")
    said = [answer(p, p.parent.name) for p in files]
    said[1] = answer(files[1], "blue", 0.3)
    said[3] = answer(files[3], "green", 0.99, known=False)
    return home, said, home / "sorted"


@pytest.mark.parametrize("action", ["copy", "move", "link"])
@pytest.mark.parametrize("other_disk", [False, True])
def test_each_goes_to_its_folder_and_back(photos, action, other_disk, monkeypatch):
    home, said, folder = photos
    if other_disk:
        replace = Path.replace

        def between_disks(self, target):
            if self.name[0] != "." and Path(target).name[0] != ".":
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            return replace(self, target)

        monkeypatch.setattr(Path, "replace", between_disks)
    before = tree(home)
    planned = [one.to for one in sorting.plan_sort(said, CLASSES, folder, action)]
    assert tree(home) == before
    found = list(sorting.sort_photos(said, CLASSES, folder, action, write_xmp=True))
    assert [one.to for one in found] == planned
    assert [one.label for one in found] == ["blue", "unsure", "green", "unknown", "red", "red"]
    assert all(one.to.is_file() and one.to.is_symlink() == (action == "link") for one in found)
    assert (home / "red" / "001.png").exists() == (action != "move")
    assert xmp.keywords_in((folder / "red" / "000.png.xmp").read_bytes()) == ["old", "red"]
    assert xmp.keywords_in((folder / "blue" / "000.png.xmp").read_bytes()) == ["blue"]
    assert not (folder / "unsure" / "001.png.xmp").exists()
    if action != "move":
        after = tree(home)
        assert all(one.again for one in sorting.sort_photos(said, CLASSES, folder, action))
        assert tree(home).keys() == after.keys()
    assert sorting.undo_sort(folder) == (7, [])
    assert tree(home) == before


def test_nothing_is_overwritten_and_what_others_changed_stays(photos, tmp_path):
    home, said, folder = photos
    (folder / "red").mkdir(parents=True)
    (folder / "red" / "000.png").write_bytes(b"mine")
    (folder / "red" / "001.xmp").write_bytes(b"mine")
    before = tree(home)
    found = list(sorting.sort_photos(said, CLASSES, folder, "move"))
    assert found[4].to == folder / "red" / "000-2.png"
    assert (folder / "red" / "000-2.png.xmp").is_file()
    assert (folder / "red" / "000.png").read_bytes() == b"mine"
    (home / "blue" / "000.png").write_bytes(b"another photo")
    count, problems = sorting.undo_sort(folder)
    assert count == 6
    assert "is another file: left where it is" in problems[0]
    (home / "blue" / "000.png").unlink()
    assert sorting.undo_sort(folder) == (1, [])
    assert tree(home) == before
    with pytest.raises(UserError, match="has no log of a sort"):
        sorting.undo_sort(folder)
    list(sorting.sort_photos(said[:1], CLASSES, folder, "copy"))
    (folder / "blue" / "000.png").write_bytes(b"edited")
    assert "it was changed since" in sorting.undo_sort(folder)[1][0]
    with pytest.raises(UserError, match="make it first"):
        list(sorting.sort_photos(said, CLASSES, tmp_path / "no" / "where"))


def test_odd_photos_and_odd_names(photos, tmp_path):
    home, _, folder = photos
    (home / "link.png").symlink_to("red/001.png")
    gone = answer(home / "gone.png")
    odd = [Answer("x.png", None, error="not a picture"), answer(home / "link.png"), gone]
    found = list(sorting.sort_photos(odd, CLASSES, folder, "move"))
    assert [one.to for one in found] == [None] * 3
    assert [one.note.split(":")[0] for one in found] == ["not a picture", "a link, which is not moved", "not sorted"]
    names = sorting.class_folders(["unknown", "..", "a/b", "a\\b", "é" * 150, "red"])
    assert names["red"] == "red"
    assert names[".."] == "_."
    assert len(set(names.values())) == 6
    assert names["unknown"] != "unknown"
    assert not any("/" in name or len(name.encode()) > 255 for name in names.values())
    long = home / ("ü" * 124 + ".png")
    shutil.copy(home / "red" / "000.png", long)
    found = list(sorting.sort_photos([answer(long)], CLASSES, folder, "copy", write_xmp=True))
    assert found[0].to.is_file()
    assert not found[0].note


SORT = """
import sys
from pathlib import Path
from protoreplay.photos import sorting
from protoreplay.photos.answers import Answer, Choice
home, folder = Path(sys.argv[1]), Path(sys.argv[2])
sorting.PORTION = 4
print("ready", flush=True)
if sys.argv[3] == "undo":
    sorting.undo_sort(folder)
else:
    photos, _ = sorting.photos_to_sort([home], folder)
    said = [Answer(str(p), p.parent.name, (Choice(p.parent.name, 0.9, 1.0),), 1.0) for p in photos]
    list(sorting.sort_photos(said, ["blue", "green", "red"], folder, "move", write_xmp=True))
print("done", flush=True)
"""


def killed(words, most):
    """Kill the process at some moment up to `most` seconds after it began its work; whether it ended before."""
    process = subprocess.Popen([sys.executable, "-c", SORT, *map(str, words)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0, most))
        process.send_signal(signal.SIGKILL)
        return process.stdout.read() == "done\n"


def test_killed_at_any_moment_every_photo_exists_once(tmp_path):
    """`PROTOREPLAY_KILLS=20` for twenty kills of the sort and as many of the undo."""
    random.seed(KILLS)
    home, folder = tmp_path / "home", tmp_path / "sorted"
    fakes.photos(home, 8 if KILLS < 10 else 60)
    for photo in sorted(home.glob("*/*.png"))[::3]:
        photo.with_name(photo.name + ".xmp").write_bytes(xmp.keyword_added(None, photo.stem))
    before, whole = tree(home), sorted(home.glob("*/*.png"))
    photos = sorted(hashlib.sha256(photo.read_bytes()).hexdigest() for photo in whole)
    begun = 0
    for number in range(KILLS):
        ended = killed((home, folder, "move"), 0.05 if number % 2 else 0.2)
        found = [*home.glob("*/*.png"), *folder.glob("*/*.png")]
        content = sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in found if path.stat().st_size)
        assert content == photos, "every photo exists once, also right after a kill"
        begun += folder.exists()
        if ended:  # once more from the start, as after a kill at its end
            sorting.undo_sort(folder)
            assert tree(home) == before
    assert begun
    subprocess.run([sys.executable, "-c", SORT, home, folder, "move"], check=True, stdout=subprocess.DEVNULL)
    assert not list(home.glob("*/*.png"))
    assert digests(home) == []
    assert sorted(path.name[0] for path in folder.rglob("*") if path.name.startswith(".sorting")) == []
    for _ in range(KILLS):
        killed((home, folder, "undo"), 0.1)
        found = [*home.glob("*/*.png"), *folder.glob("*/*.png")]
        assert sorted(hashlib.sha256(p.read_bytes()).hexdigest() for p in found if p.stat().st_size) == photos
        if not (folder / sort_log.LOG).exists():
            break
    else:
        sorting.undo_sort(folder)
    assert tree(home) == before
    assert not folder.exists()
