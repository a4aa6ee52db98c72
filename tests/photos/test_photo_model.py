import numpy as np
import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos import model_file
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel, checked_class_name, checked_class_names
from tests.photos.test_model_file import a_model


def one(keys, seed=1):
    return PhotoClass.of(np.random.default_rng(seed).random((len(keys), 6)), keys)


def test_merging_is_learning_everything_in_one():
    start = PhotoModel("tiny", "f" * 64)
    parts = [{"cat": one([1, 2, 3])}, {"dog": one([4, 5], 2), "cat": one([6], 3)}, {"cow": one([7], 4)}]
    a = start.learn(parts[0])
    b = start.learn(parts[1]).learn(parts[2])
    merged, whole = a.merge(b), start.learn(parts[0]).learn(parts[1]).learn(parts[2])
    assert merged.head.names == whole.head.names == ("cat", "cow", "dog")
    assert np.allclose(merged.head.matrix, whole.head.matrix, atol=1e-5)
    assert merged.head.calibration == pytest.approx(whole.head.calibration, rel=1e-5, abs=1e-5)
    assert [event["action"] for event in merged.history] == ["learn", "learn", "learn", "merge"]
    assert a.merge(a).classes["cat"].count == 3, "the very same photos count once"
    with pytest.raises(UserError, match="both models were taught 2 photos of 'cat', which may count only once"):
        a.merge(start.learn({"cat": one([2, 3, 9])}))
    with pytest.raises(UserError, match="two encoders cannot be mixed"):
        a.merge(PhotoModel("other", "e" * 64))


def test_uniting_classes_is_learning_all_their_photos_as_one():
    start = PhotoModel("tiny", "f" * 64)
    parts = one([1, 2, 3]), one([4, 5], 2)
    model = start.learn({"cat": parts[0], "dog": one([9], 3)}).learn({"kitten": parts[1]})
    united = model.unite("kitten", "cat")
    whole = start.learn({"cat": parts[0], "dog": one([9], 3)}).learn({"cat": parts[1]})
    assert np.array_equal(united.classes["cat"].sums.rows, whole.classes["cat"].sums.rows)
    assert np.array_equal(united.classes["cat"].seen, whole.classes["cat"].seen)
    assert united.head.calibration == whole.head.calibration
    assert [event["classes"] for event in united.history] == [{"cat": 3, "dog": 1}, {"cat": 2}, {"cat": 5}]
    assert set(model.classes) == {"cat", "dog", "kitten"}
    with pytest.raises(UserError, match="cannot be united with itself"):
        model.unite("cat", "cat")
    with pytest.raises(UserError, match="'kid' and 'cat' were both taught 1 photo, which may count only once"):
        model.learn({"kid": one([3])}).unite("kid", "cat")


def test_forgetting_leaves_no_trace():
    """Neither name nor numbers, and all others answer as if it had never been."""
    secret = "Ünmistakable-Name"
    model = a_model(names=("cat", "dog"))
    secretive = PhotoClass.of(
        np.random.default_rng(9).random((4, 6)), [901, 902, 903, 904], thumbnails={901: b"SECRETJPEG"}
    )
    taught = model.learn({secret: secretive, "cow": one([77])})
    content = model_file.model_to_bytes(taught)
    traces = [secret.encode(), b"SECRETJPEG"]
    traces += [secretive.sums.rows[0].tobytes(), np.uint64(901).tobytes()]
    assert all(trace in content for trace in traces)
    forgotten = taught.forget(secret)
    content = model_file.model_to_bytes(forgotten)
    assert not any(trace in content for trace in traces)
    never = model.learn({"cow": one([77])})
    assert np.array_equal(forgotten.head.matrix, never.head.matrix)
    assert forgotten.head.calibration == never.head.calibration
    assert [event["action"] for event in forgotten.history] == ["learn", "learn", "learn", "forget"]
    with pytest.raises(UserError, match="nothing is learned yet"):
        _ = model.forget("cat").forget("dog").head


def test_renaming_keeps_everything_else():
    model = a_model(names=("cat", "dog"))
    renamed = model.rename("dog", "wolf/🐺")
    assert renamed.head.names == ("cat", "wolf/🐺")
    assert np.array_equal(renamed.head.matrix, model.head.matrix)
    assert b"dog" not in model_file.model_to_bytes(renamed)
    for old, new, message in (
        ("cat", "dog", "there is a class 'dog' already"),
        ("cow", "ox", r"unknown class 'cow'; known: cat, dog"),
        ("cat", "", "1 to 200 characters"),
    ):
        with pytest.raises(UserError, match=message):
            model.rename(old, new)


@pytest.mark.parametrize("name", ["cat", "a/b\\c", "🐈‍⬛ and 🐕", "x" * 200, "Ω", "..", "--class"])
def test_names_that_can_be_read(name):
    assert checked_class_name(name) == name


@pytest.mark.parametrize("name", ["", " ", " cat", "a\nb", "a\0b", "a\x1b[31mb", "x" * 1000, "a\udc80b", "a\u2028b"])
def test_names_that_cannot(name):
    with pytest.raises(UserError, match="class name") as caught:
        checked_class_name(name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_two_spellings_of_one_name():
    assert checked_class_name("e\u0301") == "é"
    with pytest.raises(UserError, match="two folders give the class name 'é'"):
        checked_class_names(["é", "e\u0301"])
