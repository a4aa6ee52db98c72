import numpy as np
import pytest

from protoreplay.photos.class_summary import summary_lines
from protoreplay.photos.enough import (
    TaughtEnough,
    advice_lines,
    judge_teaching,
    judged_photos,
    left_out_answers,
    teaching_curve,
)
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel


@pytest.fixture
def model():
    """A class far from the others, and two that lie on each other."""
    random = np.random.default_rng(0)
    middles = {"cat": np.eye(20)[0] * 9, "dog": np.zeros(20), "wolf": np.eye(20)[1] * 0.7}
    classes = {
        name: PhotoClass.of(middle + random.normal(size=(12, 20)), random.integers(1, 2**60, 12).tolist())
        for name, middle in middles.items()
    }
    return PhotoModel("elsewhere.onnx", "f" * 64, 20, classes=classes)


def test_answers_are_those_of_a_model_that_never_saw_the_photo(model):
    """With the same settings: what is chosen from all photos stays as it is."""
    expected = {name: [] for name in model.classes}
    for name, own in model.classes.items():
        for key in own.sums.keys.tolist():
            without = model.without_photo(name, key)
            kept = PhotoModel(
                "elsewhere.onnx", "f" * 64, 20, classes=without.classes, calibration=model.head.calibration
            )
            row = own.sums.rows[own.sums.keys == key]
            scores, _ = kept.head.scores(row.astype(np.float64))
            expected[name].append(kept.head.names[int(scores.argmax())])
    found = left_out_answers(model)
    differ = sum(abs(found[name][other] - said.count(other)) for name, said in expected.items() for other in expected)
    assert differ <= 2, "the ridge on fewer photos is not quite the same"
    assert found["cat"] == {"cat": 12}


def test_what_is_said_of_each_class(model):
    judged = {one.name: one for one in judge_teaching(model)}
    assert judged["cat"].advice() == "cat: enough"
    assert judged["cat"].shares() == "100% (half: 100%)"
    assert (judged["dog"].asked, judged["dog"].half_asked) == (12, 6)
    assert judged["dog"].taken_for[0][0] == "wolf"
    assert "taken for wolf" in judged["dog"].advice()
    lines = list(summary_lines(model))
    assert lines[-1] == "  the other 1: enough"
    assert "right if left out" in lines[3]
    assert judge_teaching(PhotoModel("e", "f", 20, classes={"cat": model.classes["cat"]})) == []


@pytest.mark.parametrize(
    ("judged", "advice"),
    [
        (TaughtEnough("lion", 10, 4, 5, 1, (("dog", 6),)), "lion: add photos, 6 of 10 taken for dog"),
        (TaughtEnough("lion", 10, 4, 5, 2, (("dog", 6),)), "lion: more photos have not helped, 6 of 10 taken for dog"),
        (TaughtEnough("lion", 3, 3, 0, 0, ()), "lion: only 3 photos could be asked about: add some"),
        (TaughtEnough("lion", 0, 0, 0, 0, ()), "lion: add photos that differ"),
        (TaughtEnough("lion", 10, 9, 5, 1, (("dog", 1),)), "lion: enough"),
    ],
)
def test_one_line_of_advice(judged, advice):
    assert judged.advice().startswith(advice)
    assert advice_lines([judged])[0].startswith("all classes" if advice == "lion: enough" else advice)


def test_the_curve_goes_from_few_photos_to_all(model):
    points = teaching_curve(model)
    assert [point.photos for point in points] == [2.0, 3.0, 6.0, 12.0]
    whole = {one.name: (one.asked, one.right) for one in judge_teaching(model)}
    assert points[-1].classes == whole
    assert teaching_curve(PhotoModel("e", "f", 20, classes={"cat": model.classes["cat"]})) == []


def test_photos_are_refused_in_the_order_of_how_strange_they_are(model):
    judged = judged_photos(model)
    shares = [one.refused_from for one in judged]
    assert len(judged) == 36
    assert shares == sorted(shares)
    # About as many as are asked for.
    assert 0.02 <= np.mean(np.array(shares) < 0.1) <= 0.25
    assert {one.taken_for for one in judged if one.name == "cat"} == {"cat"}
    few = {name: PhotoClass.of(np.eye(20)[:1] * i, [i]) for i, name in enumerate(("a", "b"), 1)}
    assert judged_photos(PhotoModel("e", "f", 20, classes=few)) == []
