"""The command `sort --move` killed: every photo exists once, and `--undo` restores everything to the byte.

`PROTOREPLAY_KILLS=20 PROTOREPLAY_REAL_PHOTOS=FOLDER pytest tests/cli/test_sort_killed.py` kills it 20 times, on copies
of 400 photos of your own, which lie in a sub-folder per class.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter

from tests.cli.test_odd_folder import tree
from tests.photos import real_photos

KILLS = int(os.environ.get("PROTOREPLAY_KILLS", "1"))
PHOTOS = 400 if real_photos.FOLDER else 40


def sorting(*words):
    command = [sys.executable, "-m", "protoreplay.cli", "sort", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_after(process, places, moved):
    """Kill it as soon as so many photos have moved to or from `places`; whether it was still at work."""

    def there():
        return sum(len(files) for _, _, files in os.walk(places))  # which does not mind folders that go away

    before = there()
    while process.poll() is None and abs(there() - before) < moved:
        time.sleep(0.002)
    process.kill()
    return process.wait(60) != 0


def contents(*folders):
    """How often each photo exists; a place that is reserved for one is still empty."""
    photos = (path for folder in folders for path in folder.glob("*/*") if path.is_file() and path.stat().st_size)
    return Counter(path.read_bytes() for path in photos)


def test_every_photo_exists_once_and_all_is_restored(protoreplay, tiny, tmp_path):
    random.seed(KILLS)
    home, folder = real_photos.sub_folders(tmp_path / "home", PHOTOS), tmp_path / "sorted"
    before, photos = tree(home), contents(home)
    assert sum(photos.values()) == PHOTOS
    encoder = ("--encoder", real_photos.encoder_for(tiny))
    assert protoreplay("learn", "m", home, *encoder)[0] == 0
    sort, undo, killed = ("m", home, "-o", folder, "--move", *encoder), ("--undo", folder), 0
    while killed < KILLS:
        for _ in range(4 if KILLS > 4 else 1):
            killed += killed_after(sorting(*sort), folder, random.randint(1, PHOTOS // 4))
            assert contents(home, folder) == photos, "right after the kill"
        assert sorting(*sort).wait(600) == 0
        assert not list(home.glob("*/*"))
        killed += killed_after(sorting(*undo), folder, random.randint(1, PHOTOS // 2))
        assert contents(home, folder) == photos, "right after the kill of an undo"
        if folder.exists():
            assert sorting(*undo).wait(600) == 0
        assert tree(home) == before
        assert not folder.exists()
