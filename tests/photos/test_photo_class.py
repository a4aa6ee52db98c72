import numpy as np

from protoreplay.photos.photo_class import PhotoClass
from protoreplay.prototypes.sums import RANK, SINGLES

FEATURES = np.random.default_rng(0).random((40, 7))
KEYS = [int(key) for key in np.random.default_rng(1).permutation(1000)[:40]]


def photos(indices):
    keys = [KEYS[i] for i in indices]
    return PhotoClass.of(FEATURES[indices], keys, keys, {KEYS[i]: bytes([i]) for i in indices})


def test_any_order_in_any_portions_gives_the_same():
    whole = photos(list(range(40)))
    parts = photos(list(range(30, 40))) + photos([5]) + photos([*range(29, 5, -1), *range(5)])
    assert parts.count == whole.count == 40
    assert np.array_equal(parts.seen, whole.seen)
    assert np.array_equal(parts.sums.rows, whole.sums.rows)
    assert np.array_equal(parts.sums.looks, whole.sums.looks)
    assert parts.reduced(2).thumbnails == whole.reduced(2).thumbnails


def test_what_is_kept_is_bounded_and_counted():
    kept = photos(list(range(40))).reduced(3)
    directions = min(RANK, 7)
    expected = {"features": SINGLES * 7 * 2, "gaussian": 7 * 8 + directions * 7 * 2 + 16}
    assert kept.stored_bytes() == {**expected, "keys": (40 + 2 * SINGLES) * 8, "thumbnails": 3}
    assert sorted(kept.thumbnails) == sorted(KEYS)[:3]
    assert kept.reduced(3) is kept
    few = photos(list(range(SINGLES + RANK))).reduced(3)
    assert len(few.sums.rows) == SINGLES + RANK
    assert few.stored_bytes()["gaussian"] == 0


def test_ten_photos_and_two_thousand_fit_the_stated_sizes():
    random = np.random.default_rng(0)
    few, many = (PhotoClass.of(random.random((n, 2280)), list(range(n))).reduced(0) for n in (10, 2_000))
    assert sum(few.stored_bytes().values()) < 82_000
    assert sum(many.stored_bytes().values()) < 160_000 + 8 * 2_000
