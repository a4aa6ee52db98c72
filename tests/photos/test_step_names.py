import numpy as np

from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.step_names import model_steps, step_between
from protoreplay.photos.undo import UndoableModel


def photos(first, count=3):
    features = np.random.default_rng(first).normal(size=(count, 8))
    return PhotoClass.of(features, list(range(first, first + count)))


def model(**classes):
    return PhotoModel("elsewhere.onnx", "f" * 64, 8).learn({name: photos(first) for name, first in classes.items()})


def test_each_kind_of_step_has_its_name():
    start = model(cat=10, dog=20)
    for after, kind, classes, into, count in [
        (start.learn({"cat": photos(30), "elk": photos(40)}), "learn", ("cat", "elk"), "", 6),
        (start.merge(model(elk=40)), "merge", ("elk",), "", 3),
        (start.forget("cat"), "forget", ("cat",), "", 3),
        (start.without_photo("cat", 11), "forget photo", ("cat",), "", 1),
        (start.rename("cat", "lynx"), "rename", ("cat",), "lynx", 3),
        (start.unite("cat", "dog"), "unite", ("cat",), "dog", 3),
        (start.without_photo("cat", 11).learn({"dog": photos(11, 1)}), "correct", ("cat",), "dog", 1),
        (start.configured(unknown=0.2), "settings", (), "", 0),
    ]:
        step = step_between(start, after)
        assert (step.kind, step.classes, step.into, step.photos) == (kind, classes, into, count)
        assert (step.time > 0) == (kind != "settings")


def test_steps_of_a_state_are_in_order():
    state = UndoableModel(model(cat=10))
    state = state.changed_to(state.model.rename("cat", "lynx"))
    state = state.changed_to(state.model.learn({"dog": photos(20)}))
    done, undone = model_steps(state.undone())
    assert ([step.kind for step in done], [step.kind for step in undone]) == (["rename"], ["learn"])
    done, undone = model_steps(state.undone().undone())
    assert ([step.kind for step in done], [step.kind for step in undone]) == ([], ["rename", "learn"])
