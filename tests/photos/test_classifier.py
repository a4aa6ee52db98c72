from dataclasses import replace

import numpy as np
import pytest

from protoreplay import Classifier, UserError
from protoreplay.photos import model_file
from protoreplay.photos.answers import nearest_thumbnail
from protoreplay.photos.class_summary import summarise_classes
from protoreplay.photos.feature_cache import FeatureCache
from tests.photos import fakes


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(fakes.tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny.onnx"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fakes.photos(tmp_path_factory.mktemp("photos"), 8, colours=tuple(fakes.COLOURS))


def half(folder, first, colours=("red", "green", "blue")):
    some = slice(0, 5) if first else slice(5, 8)
    return {name: photos[some] for name, photos in fakes.pixels(folder).items() if name in colours}


def labels(classifier, photos):
    return [answer.label for answer in classifier.predict(photos)]


def test_it_learns_answers_and_does_not_know(tiny, folder):
    classifier = Classifier(tiny)
    classifier.learn(half(folder, True))
    for name, photos in half(folder, False).items():
        for answer in classifier.predict(photos):
            assert answer.choices[0].label == name
            assert answer.choices[0].probability > 0.6
            assert sum(choice.probability for choice in answer.choices) == pytest.approx(1, abs=1e-5)
            assert answer.choices[0].distance < answer.choices[1].distance
    stripes = np.zeros((32, 32, 3), np.uint8)
    stripes[:, ::2] = 255
    (answer,) = classifier.predict([stripes])
    assert answer.label is None
    assert answer.familiarity < 0


def test_any_order_one_class_at_a_time_gives_the_same(tiny, folder):
    photos = half(folder, True)
    at_once = Classifier(tiny)
    at_once.learn(photos)
    bit_by_bit = Classifier(tiny)
    for name in ("green", "blue", "red"):
        bit_by_bit.learn({name: photos[name][3:]})
    for name in ("red", "green", "blue"):
        bit_by_bit.learn({name: list(reversed(photos[name][:3]))})
    one, other = at_once.model.head, bit_by_bit.model.head
    assert one.names == other.names
    for part in ("matrix", "squares", "flat", "centre"):
        assert np.allclose(getattr(one, part), getattr(other, part), rtol=1e-5, atol=1e-5)
    assert one.calibration == pytest.approx(other.calibration, rel=1e-5)


def test_the_same_photo_counts_once(tiny, folder):
    classifier = Classifier(tiny)
    photos = half(folder, True)
    classifier.learn(photos)
    before = classifier.model
    report = classifier.learn(photos)
    assert report.known == {"red": 5, "green": 5, "blue": 5}
    assert classifier.model is before
    report = classifier.learn({"red": [*photos["red"], photos["red"][0].read_bytes()], "crimson": photos["red"][:1]})
    assert report.learned == {"red": 0, "crimson": 1}
    assert any(f"{photos['red'][0]} was taught as 'red' before" in str(warning) for warning in report.warnings)


def test_a_known_class_is_refined(tiny, folder):
    classifier = Classifier(tiny)
    classifier.learn(half(folder, True))
    old = classifier.model
    classifier.learn(half(folder, False, ("red",)))
    assert classifier.model.classes["red"].count == 8
    assert classifier.model.classes["blue"] is old.classes["blue"]
    assert old.classes["red"].count == 5, "a reader's copy does not change"


def test_undo(tiny, folder):
    classifier = Classifier(tiny)
    classifier.learn(half(folder, True))
    before = classifier.model
    classifier.learn(half(folder, True, ("yellow",)))
    classifier.rename("red", "scarlet")
    classifier.undo()
    classifier.undo()
    assert classifier.model is before
    classifier.undo()
    with pytest.raises(UserError, match="nothing to undo"):
        classifier.undo()
    with pytest.raises(UserError, match="nothing is learned yet"):
        list(classifier.predict([np.zeros((4, 4, 3), np.uint8)]))


def test_forget_also_empties_the_cache_and_cannot_be_undone(tiny, folder):
    classifier = Classifier(tiny)
    photos = half(folder, True)
    classifier.learn(photos)

    def remembered(name):
        import hashlib

        with FeatureCache(classifier.encoder.fingerprint) as cache:
            return [cache.get(hashlib.sha256(p.read_bytes()).digest()) is not None for p in photos[name]]

    assert all(remembered("red"))
    classifier.forget("red")
    assert not any(remembered("red"))
    assert all(remembered("blue"))
    assert "red" not in classifier.model.classes
    with pytest.raises(UserError, match="nothing to undo"):
        classifier.undo()
    with pytest.raises(UserError, match="unknown class 'red'"):
        classifier.forget("red")
    before = classifier.model
    classifier.forget("blue", undoable=True)
    assert not any(remembered("blue"))
    classifier.undo()
    assert classifier.model is before


def test_merging_two_is_learning_all(tiny, folder):
    one, other, whole = Classifier(tiny), Classifier(tiny), Classifier(tiny)
    one.learn(half(folder, True, ("red", "green")))
    other.learn(half(folder, False, ("green", "blue")))
    for photos in (half(folder, True, ("red", "green")), half(folder, False, ("green", "blue"))):
        whole.learn(photos)
    one.merge(other)
    assert np.allclose(one.model.head.matrix, whole.model.head.matrix, atol=1e-5)
    assert one.model.head.calibration == pytest.approx(whole.model.head.calibration, rel=1e-5)


def test_files_hold_everything_and_encoders_are_never_mixed(tiny, folder, tmp_path):
    classifier = Classifier(tiny, unknown=0.1, keep=2)
    classifier.learn(half(folder, True))
    classifier.save(tmp_path / "m")
    back = Classifier.load(tmp_path / "m", tiny)
    photos = half(folder, False)["red"]
    assert list(back.predict(photos)) == list(classifier.predict(photos))
    assert back.model.unknown == 0.1
    assert [len(own.thumbnails) for own in back.model.classes.values()] == [2, 2, 2]
    other = str(fakes.tiny_encoder(tmp_path / "other.onnx", seed=3))
    with pytest.raises(UserError, match="features of two encoders cannot be mixed"):
        Classifier.load(tmp_path / "m", encoder=other)
    with pytest.raises(UserError, match="features of two encoders cannot be mixed"):
        Classifier(other).merge(classifier)
    moved = fakes.tiny_encoder(tmp_path / "moved.onnx")
    assert Classifier.load(tmp_path / "m", encoder=str(moved)).model.encoder == str(moved)


def test_nothing_of_a_photo_is_kept_unless_asked(tiny, folder):
    classifier = Classifier(tiny)
    classifier.learn(half(folder, True))
    for summary in summarise_classes(classifier.model):
        assert summary.kept["thumbnails"] == 0
        assert summary.photos == 5
        assert summary.first > 0
        assert 0.3 < summary.spread < 3


def test_the_nearest_kept_photo_explains_an_answer(tiny, folder):
    classifier = Classifier(tiny, keep=2)
    asked = half(folder, False)["blue"][0]
    (photo,) = classifier.embed([asked])
    assert nearest_thumbnail(photo, classifier.model) is None
    classifier.learn(half(folder, True))
    name, thumbnail = nearest_thumbnail(photo, classifier.model)
    assert name == "blue"
    assert thumbnail in classifier.model.classes["blue"].thumbnails.values()


@pytest.mark.parametrize(("setting", "value"), [("unknown", -0.1), ("unknown", 0.6), ("keep", -1), ("keep", 10**6)])
def test_settings_out_of_range(tiny, setting, value):
    with pytest.raises(UserError, match=f"{setting}={value}"):
        Classifier(tiny, **{setting: value})


def test_never_refusing(tiny, folder):
    classifier = Classifier(tiny, unknown=0)
    classifier.learn(half(folder, True))
    assert None not in labels(classifier, [np.full((9, 9, 3), v, np.uint8) for v in (0, 100, 255)])


def test_a_class_without_a_readable_photo_changes_nothing(tiny, folder):
    classifier = Classifier(tiny)
    with pytest.raises(UserError, match="class 'empty' has no readable photo"):
        classifier.learn(half(folder, True) | {"empty": [b"?"]})
    assert not classifier.model.classes


def test_a_model_does_not_choose_its_encoder(tiny, folder, tmp_path, monkeypatch):
    """Whoever wrote the file could name anything: a download, a file that is code, a pipe that is never written to."""
    classifier = Classifier(tiny)
    classifier.learn(half(folder, True))
    opened = []
    monkeypatch.setattr("protoreplay.photos.classifier.open_encoder", lambda name: opened.append(name))
    for name in ("timm:hf-hub:somebody/else", "evil.onnx", "lite2.onnx", "/dev/stdin.onnx", "hub@224"):
        model_file.write_model(replace(classifier.model, encoder=name), tmp_path / "m")
        stranger = Classifier.load(tmp_path / "m")
        with pytest.raises(UserError, match=f"taught with the encoder {name}, which does not come with protoreplay"):
            list(stranger.predict(half(folder, False)["red"]))
        # What needs no encoder is done without it.
        stranger.rename("red", "rouge")
        stranger.forget("blue")
        stranger.save(tmp_path / "m")
        assert Classifier.load(tmp_path / "m").classes == ("green", "rouge")
    assert opened == []
    monkeypatch.undo()
    assert Classifier.load(tmp_path / "m", encoder=tiny).model.encoder == tiny, "it is the user who names it"
