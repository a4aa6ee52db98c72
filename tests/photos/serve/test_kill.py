"""The server killed while it learns. `PROTOREPLAY_KILLS=20 pytest tests/photos/serve/test_kill.py` tries more often."""

import os
import random
import threading
import time

import requests

from protoreplay.photos import model_file
from tests.photos.serve.fakes import files
from tests.photos.serve.served import running

TRIES = int(os.environ.get("PROTOREPLAY_KILLS", "3"))


def learn(address: str, label: str, start: int) -> None:
    photos = files("red", 40, start)
    try:
        requests.post(f"{address}api/learn", data={"label": label}, files=photos, timeout=60).raise_for_status()
    except requests.ConnectionError:
        return


def test_killed_while_it_learns_the_model_is_the_old_or_the_new_one(tiny, tmp_path):
    model = tmp_path / "m"
    with running(model, "--encoder", tiny, "--no-token") as (_, address):
        started = time.perf_counter()
        learn(address, "first", 0)
        usual = time.perf_counter() - started
    known = {"first": 40}
    for number in range(1, TRIES + 1):
        with running(model, "--encoder", tiny, "--no-token") as (process, address):
            served = requests.get(f"{address}api/classes", timeout=60).json()["classes"]
            assert {one["label"]: one["photos"] for one in served} == known
            teacher = threading.Thread(target=learn, args=(address, f"class {number}", 40 * number))
            teacher.start()
            # Around the time at which the file is written.
            time.sleep(random.Random(number).uniform(0.2, 1.2) * usual)
            process.kill()
            teacher.join(300)
        found = {name: concept.count for name, concept in model_file.read_model(model).classes.items()}
        assert found in (known, {**known, f"class {number}": 40})
        print(f"try {number}: the {'old' if found == known else 'new'} model")
        known = found
