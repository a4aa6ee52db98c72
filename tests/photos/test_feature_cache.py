import hashlib
import sqlite3
import threading

import numpy as np
import pytest

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
