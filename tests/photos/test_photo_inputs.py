import numpy as np
import pytest
from PIL import Image

from protoreplay import Classifier, UserError
from tests.photos import fakes


def answered(classifier, photos, **options):
    return [answer.label for answer in classifier.predict(photos, **options)]


def test_one_photo_or_many_of_every_kind(taught, tmp_path):
    folder = fakes.photos(tmp_path / "asked", 2, start=40, colours=("blue",)) / "blue"
    path = folder / "040.png"
    image = Image.open(path)
    pixels = np.asarray(image)
    alpha = np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
    for one in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), image, pixels, alpha):
        assert answered(taught, one) == ["blue"]
        assert answered(taught, [one, one]) == ["blue", "blue"]
    assert answered(taught, folder) == answered(taught, str(folder)) == ["blue", "blue"]
    assert answered(taught, (p for p in (path, image, pixels))) == ["blue"] * 3
    assert answered(taught, np.stack([pixels] * 3)) == ["blue"] * 3
    assert answered(taught, pixels[:, :, 0]), "grey pixels are a photo, too"
    turned = Image.new("RGB", (40, 40))
    turned.paste(image)
    turned.getexif()[0x0112] = 6
    assert answered(taught, turned) == ["blue"]


@pytest.mark.parametrize("thing", [None, 5, {"a": 1}, [None], [3.5], object()])
def test_what_is_no_photo_is_said_so(taught, thing):
    with pytest.raises(UserError, match="is no photo: give a path, the bytes of a file"):
        list(taught.predict(thing))


def test_classes_of_numbers_and_generators(tiny, tmp_path):
    folder = fakes.photos(tmp_path / "taught")
    classifier = Classifier(tiny)
    assert repr(classifier).endswith("0 classes: nothing is learned yet>")
    assert classifier, "an empty one is still a classifier"
    classifier.learn({1: folder / "red", np.int64(2): str(folder / "green"), "blue": (folder / "blue").iterdir()})
    assert classifier.classes == ("1", "2", "blue")
    assert len(classifier) == 3
    assert "blue" in classifier
    assert 1 in classifier
    assert "crow" not in classifier
    assert repr(classifier) == f"<Classifier on {tiny}, 3 classes: 1 (6), 2 (6), blue (6)>"
    classifier.rename(2, 3)
    classifier.forget(1)
    assert classifier.classes == ("3", "blue")
    with pytest.raises(UserError, match="class name None: give a text or a number"):
        classifier.learn({None: folder / "red"})
    with pytest.raises(UserError, match="photos are taught by class"):
        classifier.learn([folder / "red"])


def test_top(taught, tmp_path):
    path = fakes.photos(tmp_path / "asked", 1, 40, ("red",)) / "red" / "040.png"
    (answer,) = taught.predict(path, top=0)
    assert (answer.label, answer.choices) == ("red", ())
    assert [len(next(taught.predict(path, top=top)).choices) for top in (1, 2, 99)] == [1, 2, 3]
    for top in (-1, 1.5, "3", True):
        with pytest.raises(UserError, match="top="):
            taught.predict(path, top=top)


def test_names_that_are_all_but_the_same(taught, tmp_path):
    report = taught.learn({"R\u00e9d": fakes.photos(tmp_path / "more", 2, 60, ("red",)) / "red"})
    assert "'R\u00e9d' and 'red' differ in case, spaces or accents alone: are they one class?" in report.warnings
    report = taught.learn({"か": fakes.photo("red", 70), "が": fakes.photo("red", 71)})
    assert not any("differ in case" in str(warning) for warning in report.warnings), "other letters, other words"
