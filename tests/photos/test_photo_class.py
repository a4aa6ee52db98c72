import numpy as np

from protoreplay.photos.photo_class import PhotoClass
from protoreplay.prototypes.sums import SAMPLE

FEATURES = np.random.default_rng(0).random((40, 7))
KEYS = [int(key) for key in np.random.default_rng(1).permutation(1000)[:40]]


def photos(indices):
    return PhotoClass.of(FEATURES[indices], [KEYS[i] for i in indices], {KEYS[i]: bytes([i]) for i in indices})


def test_any_order_in_any_portions_gives_the_same():
    whole = photos(list(range(40)))
    parts = photos(list(range(30, 40))) + photos([5]) + photos([*range(29, 5, -1), *range(5)])
    assert parts.count == whole.count == 40
    assert np.array_equal(parts.seen, whole.seen)
    assert np.allclose(parts.sums.total, whole.sums.total)
    assert parts.reduced(3, 2).thumbnails == whole.reduced(3, 2).thumbnails


def test_what_is_kept_is_bounded_and_counted():
    kept = photos(list(range(40))).reduced(SAMPLE, 3)
    expected = {"prototype": 7 * 16 + 8, "keys": (40 + SAMPLE) * 8, "sample": SAMPLE * 7 * 2, "thumbnails": 3}
    assert kept.stored_bytes() == expected
    assert sorted(kept.thumbnails) == sorted(KEYS)[:3]
    assert kept.reduced(4, 3).sums.sample.shape == (4, 7)
    assert kept.reduced(SAMPLE, 3) is kept
