import hashlib
import sqlite3
import threading
import zlib

import numpy as np
import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos.feature_cache import FeatureCache, discard_features


def digest(number):
    return hashlib.sha256(bytes([number])).digest()


def keys(*numbers):
    """As models keep them."""
    return np.array([int.from_bytes(digest(number)[:8], "big") for number in numbers], np.uint64)


def vector(number):
    return np.full(100, number, np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "features.sqlite"


def filled(path, numbers, fingerprint="one", **options):
    with FeatureCache(fingerprint, path, **options) as cache:
        cache.put({digest(n): (vector(n), n) for n in numbers})
    return path


def held(path, fingerprint="one"):
    with FeatureCache(fingerprint, path) as cache:
        return {n for n in range(100) if cache.get(digest(n)) is not None}


def test_features_come_back_under_their_encoder_only(path):
    filled(path, [1, 2])
    with FeatureCache("one", path) as cache:
        features, look = cache.get(digest(2))
        assert np.array_equal(features, vector(2))
        assert look == 2
    assert held(path, "two") == set()


def test_the_least_recently_used_go_first(path):
    filled(path, [0, 1], limit=4120)
    filled(path, range(2, 10), limit=4120)
    with FeatureCache("one", path) as cache:
        assert cache.get(digest(0)) is not None
    filled(path, [50], limit=4120)
    kept = held(path)
    assert {0, 50} <= kept
    assert len(kept) == 9
    assert 1 not in kept


def test_what_is_discarded_is_gone_from_the_disk(path):
    filled(path, [7, 8])
    filled(path, [7], "two")
    discard_features(keys(7), path)
    assert held(path) == {8}
    assert held(path, "two") == set()
    assert not any(vector(7).tobytes() in file.read_bytes() for file in path.parent.iterdir())
    assert any(vector(8).tobytes() in file.read_bytes() for file in path.parent.iterdir())


def test_a_damaged_file_is_made_anew(path):
    path.write_bytes(b"this is no database" * 100)
    assert held(filled(path, [3])) == {3}
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    held(path)
    assert held(filled(path, [4])) >= {4}


def test_a_flipped_bit_is_noticed(path):
    filled(path, [9])
    with sqlite3.connect(path) as database:
        (content,) = database.execute("SELECT vector FROM photos").fetchone()
        database.execute("UPDATE photos SET vector = ?", (bytes([content[0] ^ 1]) + content[1:],))
    database.close()
    assert held(path) == set()
    assert held(filled(path, [9])) == {9}


def test_no_place_to_write_costs_nothing_but_time(tmp_path):
    (tmp_path / "file").touch()
    assert held(filled(tmp_path / "file" / "features.sqlite", [1])) == set()


def test_many_threads_and_processes_share_it(path):
    def work(start):
        filled(path, range(start, start + 10))
        assert held(path) >= set(range(start, start + 10))

    threads = [threading.Thread(target=work, args=(10 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert held(path) == set(range(40))
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def on_disk(path, numbers):
    """Of which of these features a trace is in a file of the cache."""
    found = b"".join(file.read_bytes() for file in path.parent.iterdir())
    return {number for number in numbers if vector(number).tobytes()[:64] in found}


def test_forgetting_waits_for_a_reader_and_drops_what_a_writer_was_about_to_write(path):
    filled(path, [1, 2, 3])
    writer = FeatureCache("one", path)
    assert writer.get(digest(4)) is None  # asked for before, and written after the photo was forgotten
    reader = sqlite3.connect(path, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM photos").fetchone()
    forgetting = threading.Thread(target=discard_features, args=(keys(1, 2, 4), path), kwargs={"patience": 60})
    forgetting.start()
    with sqlite3.connect(path, timeout=60) as looking:
        while looking.execute("SELECT COUNT(*) FROM photos").fetchone() != (1,):
            pass
    looking.close()
    assert forgetting.is_alive(), "an older state is still being read, and nothing was said of it"
    reader.rollback()
    forgetting.join(60)
    writer.put({digest(4): (vector(4), 4)})
    writer.flush()
    assert on_disk(path, [1, 2, 3, 4]) == {3}
    assert writer.get(digest(4)) is None
    writer.put({digest(4): (vector(4), 4)})  # looked at anew, after it was forgotten
    writer.__exit__()
    assert held(path) == {3, 4}
    reader.close()


def test_forgetting_fails_and_says_what_is_left_where_the_file_is_held(path):
    filled(path, [1, 2])
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM photos").fetchone()
    with pytest.raises(UserError, match="because 2 feature vectors of these photos are still in"):
        discard_features(keys(1, 2), path, patience=0.2)
    reader.close()
    writer = sqlite3.connect(path)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(UserError, match=r"in .*features.sqlite \(database is locked\): end what else is at work"):
        discard_features(keys(1, 2), path, patience=0.2)
    writer.close()
    discard_features(keys(1, 2), path)
    assert on_disk(path, [1, 2]) == set()


@pytest.mark.parametrize("stored", [None, "text", 5, b"", b"\0" * 12, "wrong width", "not finite"])
def test_what_no_cache_has_written_is_not_known(path, stored):
    filled(path, [9])
    if stored == "wrong width":
        stored = bytes(8) + np.ones(7, np.float32).tobytes()
    elif stored == "not finite":
        stored = bytes(8) + np.full(100, np.nan, np.float32).tobytes()
    if isinstance(stored, bytes) and stored:
        stored += zlib.crc32(stored).to_bytes(4)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE photos SET vector = ?", (stored,))
    database.close()
    with FeatureCache("one", path, width=100) as cache:
        assert cache.get(digest(9)) is None
        cache.put({digest(9): (vector(9), 9)})
    assert held(path) == {9}


def test_a_file_of_other_tables_is_made_anew(path):
    for statement in ("CREATE TABLE photos (a)", "CREATE TABLE t (a)", "CREATE VIEW photos AS SELECT 1"):
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as database:
            database.execute(statement)
        database.close()
        assert held(filled(path, [3])) == {3}


def test_nobody_else_may_read_it(path):
    path.touch(0o644)
    with FeatureCache("one", filled(path, [1])):
        assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
