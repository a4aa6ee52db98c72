import io
import threading

import numpy as np
import pytest
from PIL import Image

from protoreplay.data import pictures
from protoreplay.encoders import pretrained
from protoreplay.photos import embedding
from protoreplay.photos.feature_cache import FeatureCache
from tests.photos import fakes


class Slow:
    """An encoder that notes who calls it with how many."""

    def __init__(self, path):
        self.inner, self.size, self.calls, self.threads = pretrained.open_encoder(path), fakes.SIZE, [], set()

    def embed(self, pixels):
        self.calls.append(len(pixels))
        self.threads.add(threading.get_ident())
        return self.inner.embed(pixels)


def arrays(count):
    return [np.full((8, 8, 3), i % 256, np.uint8) for i in range(count)]


def test_in_order_over_threads_with_few_waiting(tiny):
    slow, taken = Slow(tiny), 0

    def photos():
        nonlocal taken
        for array in arrays(250):
            taken += 1
            yield array

    stream = embedding.embed_photos(slow, photos(), threads=2)
    first = next(stream)
    assert taken < 130, "a stream does not read ahead of its reader"
    rest = list(stream)
    assert [one.name for one in [first, *rest]] == [f"photo {i + 1}" for i in range(250)]
    assert max(slow.calls) == 16
    assert len(slow.threads) == 2
    alone = [pretrained.open_encoder(tiny).embed(np.full((1, 3, 32, 32), i, np.uint8))[0] for i in range(250)]
    assert np.allclose([one.features for one in [first, *rest]], alone, atol=1e-5)


def test_few_photos_are_shared_between_threads(tiny):
    slow = Slow(tiny)
    assert len(list(embedding.embed_photos(slow, arrays(6), threads=3))) == 6
    assert sorted(slow.calls) == [2, 2, 2]
    assert list(embedding.embed_photos(slow, [], threads=3)) == []


def test_a_reader_that_stops_early_stops_the_work(tiny):
    slow = Slow(tiny)
    stream = embedding.embed_photos(slow, arrays(2000), threads=2)
    next(stream)
    stream.close()
    assert sum(slow.calls) < 300


def test_files_bytes_and_pixels_are_the_same_photo(tiny, tmp_path):
    photo = fakes.photo("red", 1)
    photo.save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    file, raw, array = embedding.embed_photos(
        pretrained.open_encoder(tiny), [tmp_path / "a.png", content, np.asarray(photo)]
    )
    assert np.array_equal(file.features, raw.features)
    assert np.allclose(file.features, array.features, atol=1e-5)
    assert file.key == raw.key != array.key


def test_who_asks_for_no_keys_gets_the_same_features_without(tiny):
    with_keys, without = (
        list(embedding.embed_photos(pretrained.open_encoder(tiny), arrays(3), keys=wanted)) for wanted in (True, False)
    )
    assert len({one.key for one in with_keys}) == 3
    assert [one.key for one in without] == [0, 0, 0]
    assert all(np.array_equal(one.features, other.features) for one, other in zip(with_keys, without))


@pytest.mark.parametrize(
    ("photo", "error"),
    [
        (b"", "not a picture of a known format"),
        (np.zeros((4, 4, 2), np.uint8), "pixels must be uint8, H x W x 3, not uint8 (4, 4, 2)"),
        (np.zeros((4, 4, 3)), "pixels must be uint8, H x W x 3, not float64 (4, 4, 3)"),
        (np.zeros((0, 4, 3), np.uint8), "pixels must be uint8"),
    ],
)
def test_what_cannot_be_read_takes_its_place_in_the_stream(tiny, photo, error):
    good = arrays(1)[0]
    results = list(embedding.embed_photos(pretrained.open_encoder(tiny), [good, photo, good]))
    assert results[1].error.startswith(error)
    assert results[1].features is None
    assert [one.error for one in results[::2]] == ["", ""]


def test_odd_files(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "LARGEST_FILE", 1000)
    (tmp_path / "large.png").write_bytes(b"x" * 1001)
    paths = [tmp_path, tmp_path / "absent", tmp_path / "large.png"]
    errors = [one.error for one in embedding.embed_photos(pretrained.open_encoder(tiny), paths)]
    assert errors == ["not a file", "does not exist", "refused: more than 0 MB"]


def test_thumbnails_are_small_pictures(tiny):
    (one,) = embedding.embed_photos(pretrained.open_encoder(tiny), [np.asarray(fakes.photo("red", 1))], thumbnails=True)
    picture = Image.open(io.BytesIO(one.thumbnail))
    assert (picture.format, picture.size) == ("JPEG", (96, 96))
    assert len(one.thumbnail) < 10_000


def test_photos_seen_before_are_not_embedded_again(tiny, tmp_path):
    slow = Slow(tiny)
    with FeatureCache("print", tmp_path / "c.sqlite") as cache:
        first = list(embedding.embed_photos(slow, arrays(20), cache))
    with FeatureCache("print", tmp_path / "c.sqlite") as cache:
        again = list(embedding.embed_photos(slow, arrays(21), cache))
    assert sum(slow.calls) == 21
    assert np.array_equal([one.features for one in first], [one.features for one in again[:20]])
