"""Features on disk: made once, whole or not at all, never mixed, and bounded."""

import hashlib
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from protoreplay.encoders import feature_store
from protoreplay.encoders.feature_store import FeatureStore, stored_features

KEYS = [hashlib.sha256(bytes([number])).digest() for number in range(6)]
SPAWN = multiprocessing.get_context("spawn")


def rows_of(place):
    return np.full(3, place, np.float32)


def never(place):
    raise AssertionError("it was made before")


def test_what_was_made_is_found_by_content_in_any_order_and_by_another_store(tmp_path):
    made = FeatureStore("a" * 64, "one", tmp_path).rows([*KEYS[:4], KEYS[0]], rows_of)
    assert made.tolist() == [[0.0] * 3, [1.0] * 3, [2.0] * 3, [3.0] * 3, [0.0] * 3]
    found = FeatureStore("a" * 64, "one", tmp_path).rows([KEYS[2], KEYS[0]], never)
    assert found.tolist() == [[2.0] * 3, [0.0] * 3]
    (stored,) = stored_features(tmp_path)
    assert (stored.encoder, stored.images) == ("one", 4)


def test_features_of_another_encoder_are_never_found(tmp_path):
    FeatureStore("a" * 64, "one", tmp_path).rows(KEYS[:2], rows_of)
    # Even where the folders' names, which are cut, are the same.
    other = FeatureStore("a" * 32 + "b" * 32, "one", tmp_path).rows(KEYS[:2], lambda place: rows_of(9))
    assert (other == 9).all()


def test_a_damaged_file_is_made_anew(tmp_path):
    FeatureStore("a" * 64, "one", tmp_path).rows(KEYS[:2], rows_of)
    (path,) = tmp_path.glob("*/*.features")
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    again = FeatureStore("a" * 64, "one", tmp_path).rows(KEYS[:2], lambda place: rows_of(7))
    assert (again == 7).all()


def test_over_the_limit_what_was_not_used_for_longest_goes(tmp_path):
    FeatureStore("a" * 64, "old", tmp_path).rows(KEYS[:2], rows_of)
    FeatureStore("b" * 64, "used", tmp_path).rows(KEYS[:2], rows_of)
    for path in tmp_path.glob("*/*.features"):
        os.utime(path, (1.0, 1.0))
    FeatureStore("b" * 64, "used", tmp_path).rows(KEYS[:2], never)
    size = sum(path.stat().st_size for path in tmp_path.glob("*/*.features"))
    FeatureStore("c" * 64, "new", tmp_path, limit=size * 5 // 4).rows(KEYS[:2], rows_of)
    assert {one.encoder for one in stored_features(tmp_path)} == {"used", "new"}


def test_many_small_files_become_one_also_for_who_has_read_them_or_was_about_to(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_store, "SMALL_FILES", 3)
    late, maker = (FeatureStore("a" * 64, "one", tmp_path) for _ in range(2))
    maker.rows(KEYS[:1], rows_of)
    early = FeatureStore("a" * 64, "one", tmp_path)
    early.rows(KEYS[:1], never)
    maker.rows(KEYS[:2], lambda place: rows_of(1))
    (small, *_) = tmp_path.glob("*/*.features")
    about_to_be_read = small.read_bytes()
    maker.rows(KEYS[:3], lambda place: rows_of(2))
    (only,) = tmp_path.glob("*/*.features")
    small.write_bytes(about_to_be_read)  # as where the merging process was killed before it removed the small ones
    for store in (late, early, maker, FeatureStore("a" * 64, "one", tmp_path)):
        assert store.rows(KEYS[:3], never)[:, 0].tolist() == [0.0, 1.0, 2.0]
    only.unlink()
    assert FeatureStore("a" * 64, "one", tmp_path).rows(KEYS[:3], rows_of)[:, 0].tolist() == [0.0, 1.0, 2.0]


def make_slowly(root, log, started, piece):
    """What a process does: every image it makes is a line in `log`."""
    feature_store.PIECE = piece

    def make(place):
        with log.open("a") as file:
            file.write(f"{place}\n")
        started.set()
        time.sleep(0.05)
        return rows_of(place)

    FeatureStore("a" * 64, "one", root).rows(KEYS, make)


def test_two_processes_make_each_image_once(tmp_path):
    log, root = tmp_path / "log", tmp_path / "features"
    started = SPAWN.Event()
    both = [SPAWN.Process(target=make_slowly, args=(root, log, started, 2)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert sorted(log.read_text().split()) == [str(place) for place in range(len(KEYS))]


def test_a_killed_maker_leaves_whole_files_and_a_free_lock(tmp_path):
    log, root, started = tmp_path / "log", tmp_path / "features", SPAWN.Event()
    process = SPAWN.Process(target=make_slowly, args=(root, log, started, 6))
    process.start()
    assert started.wait(60)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert not list(root.glob("*/*.features"))
    made = FeatureStore("a" * 64, "one", root).rows(KEYS, rows_of)
    assert made[:, 0].tolist() == list(range(len(KEYS)))


def test_of_a_killed_maker_what_it_had_written_is_kept_and_half_a_file_is_never_read(tmp_path):
    log, root, started = tmp_path / "log", tmp_path / "features", SPAWN.Event()
    process = SPAWN.Process(target=make_slowly, args=(root, log, started, 2))
    process.start()
    deadline = time.monotonic() + 60
    while not list(root.glob("*/*.features")) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    (first, *_) = root.glob("*/*.features")
    (leftover := first.with_name(".half.features.1.tmp")).write_bytes(first.read_bytes()[:-5])
    kept = stored_features(root)[0].images
    made = []
    rows = FeatureStore("a" * 64, "one", root).rows(KEYS, lambda place: made.append(place) or rows_of(place))
    assert rows[:, 0].tolist() == list(range(len(KEYS)))
    assert len(made) == len(KEYS) - kept < len(KEYS)
    assert not leftover.exists()


def test_where_nothing_can_be_written_features_are_made_all_the_same(tmp_path):
    (tmp_path / "file").write_text("in the way")
    made = FeatureStore("a" * 64, "one", tmp_path / "file" / "below").rows(KEYS[:2], rows_of)
    assert made[:, 0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("content", [b"", b"{}\n", b"no header"])
def test_what_is_no_file_of_features_is_passed_over(tmp_path, content):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.features").write_bytes(content)
    assert stored_features(tmp_path) == []
