"""`learn` and `forget` killed at any moment: the old or the new model is there, and the same command ends the work.

`PROTOREPLAY_KILLS=20 pytest -s tests/photos/test_kills.py` kills each of them twenty times.
"""

import os
import random
import signal
import time
from dataclasses import replace

import pytest

from protoreplay.cli.photo_commands import changed_model
from protoreplay.photos import model_file
from protoreplay.photos.classifier import Classifier
from tests.photos import fakes

KILLS = int(os.environ.get("PROTOREPLAY_KILLS", "3"))


def state(path):
    """All of a model, to the byte, but the times at which things were done."""
    model = model_file.read_model(path)
    return model_file.model_to_bytes(replace(model, history=tuple({**one, "time": 0} for one in model.history)))


def killed(act, ready, delay):
    """Do it in a child that is killed so long after it says that it starts."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    while not ready.exists():
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("command", ["learn", "forget"])
def test_killed_at_any_moment_nothing_is_lost(command, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(tmp_path / "cache"))
    path, ready = tmp_path / "m", tmp_path / "ready"
    photos = fakes.pixels(fakes.photos(tmp_path / "photos", 4))
    classifier = Classifier(tiny)
    classifier.learn(photos)
    classifier.save(path)
    lesson = Classifier(tiny).prepare({"more": fakes.pixels(fakes.photos(tmp_path / "more", 4, 50))["red"]})
    start, old, found = path.read_bytes(), state(path), []

    def act():
        with changed_model(path) as changed:
            ready.touch()
            if command == "learn":
                changed.learn_prepared(lesson)
            elif "red" in changed:
                changed.forget("red")

    started = time.perf_counter()
    act()
    usual, new = time.perf_counter() - started, state(path)
    for number in range(KILLS):
        path.write_bytes(start)
        ready.unlink()
        killed(act, ready, random.Random(number).uniform(0, 1.2) * usual)
        assert state(path) in (old, new)
        found.append("new" if state(path) == new else "old")
        act()
        assert state(path) == new
        assert not list(tmp_path.glob(".m.*.tmp")), "what the killed one left is gone"
    print(f"{command}: {KILLS} kills, {found.count('old')} left the old model and {found.count('new')} the new one")
