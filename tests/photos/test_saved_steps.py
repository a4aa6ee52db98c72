import numpy as np
import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.photos import model_file, saved_steps
from protoreplay.photos.embedding import photo_key
from tests.photos import fakes


def again(classifier, path):
    """As another process finds it."""
    classifier.save(path)
    return Classifier.load(path, classifier.encoder.name)


def same(one, other):
    return model_file.model_to_bytes(one) == model_file.model_to_bytes(other)


def test_every_kind_of_step_is_undone_and_redone_from_the_file(taught, tmp_path):
    path, models = tmp_path / "m", [taught.model]
    more = fakes.pixels(fakes.photos(tmp_path / "more", 40, start=50, colours=("red", "yellow")))
    for change in (
        lambda one: one.learn(more),
        lambda one: one.rename("yellow", "gold"),
        lambda one: one.unite("gold", "blue"),
    ):
        change(taught)
        models.append(taught.model)
        taught = again(taught, path)
    assert taught.undoable == 4
    for model in models[-2::-1]:
        taught.undo()
        taught = again(taught, path)
        assert same(taught.model, model)
    for model in models[1:]:
        taught.redo()
        taught = again(taught, path)
        assert same(taught.model, model)
    taught.undo()
    taught.rename("red", "rouge")
    assert again(taught, path).redoable == 0


def test_steps_cost_what_they_change_and_fit_their_bound(taught, tmp_path, monkeypatch):
    alone = len(model_file.model_to_bytes(taught.model))
    for _ in range(10):
        taught.rename("red", "rouge")
        taught.rename("rouge", "red")
    state = again(taught, tmp_path / "m").state
    assert len(state.past) == 20
    assert len({id(own) for model in state.past for own in model.classes.values()}) == 3, "shared as before"
    for count in range(1, 20):
        taught.learn({"red": fakes.pixels(fakes.photos(tmp_path / "more", count, 100, ("red",)))["red"]})
    monkeypatch.setattr(saved_steps, "STEPS_BYTES", 4000)
    assert 1 <= again(taught, tmp_path / "m").undoable < 20
    assert (tmp_path / "m").stat().st_size < alone + 4000 + 25000


@pytest.mark.parametrize("one_photo", [False, True])
def test_what_is_forgotten_is_nowhere_in_the_file(taught, tmp_path, one_photo):
    taught.configure(keep=6)
    extra = fakes.photos(tmp_path / "more", 2, 70, ("yellow", "red"))
    victim = extra / "yellow" / "070.png"
    taught.learn(fakes.pixels(extra))
    taught.rename("yellow", "gold")
    own = taught.model.classes["gold"]
    (row,) = (own.sums.rows[i] for i, key in enumerate(own.sums.keys) if key == photo_key(victim))
    thumbnail = own.thumbnails[photo_key(victim)]
    traces = [row.tobytes(), thumbnail, int(photo_key(victim)).to_bytes(8, "little")]
    taught = again(taught, tmp_path / "m")
    assert all(trace in (tmp_path / "m").read_bytes() for trace in traces)
    if one_photo:
        taught.forget_photo(victim)
    else:
        taught.forget("gold")
        traces += [b"gold", b"yellow"]
    taught = again(taught, tmp_path / "m")
    assert not any(trace in (tmp_path / "m").read_bytes() for trace in traces)
    assert (taught.undoable, taught.redoable) == (0, 0)


def test_what_only_memory_may_hold_is_not_written(taught, tmp_path):
    taught.forget("red", undoable=True)
    assert b"red" not in (again(taught, tmp_path / "m"), (tmp_path / "m").read_bytes())[1]
    taught.undo()
    assert "red" in taught.model.classes


def test_fewer_thumbnails_are_fewer_in_the_steps_too(taught, tmp_path):
    taught.configure(keep=3)
    taught.learn(fakes.pixels(fakes.photos(tmp_path / "more", 3, 70)))
    taught.rename("red", "rouge")
    taught.configure(keep=0)
    taught.learn(fakes.pixels(fakes.photos(tmp_path / "yet", 1, 90)))
    past = again(taught, tmp_path / "m").state.past
    assert not any(own.thumbnails for model in past for own in model.classes.values())


def test_a_photo_is_forgotten_as_if_never_taught(tiny, tmp_path):
    photos = fakes.pixels(fakes.photos(tmp_path / "all", 8))
    one, other = Classifier(tiny), Classifier(tiny)
    one.learn(photos)
    other.learn({name: some[name == "red" :] for name, some in photos.items()})
    forgotten = one.forget_photo(photos["red"][0])
    assert str(forgotten) == "forgot one photo of 'red', 7 left"
    assert (forgotten.exact, one.undoable) == (True, 0)
    for name, own in other.model.classes.items():
        assert np.array_equal(one.model.classes[name].sums.rows, own.sums.rows)
        assert np.array_equal(one.model.classes[name].seen, own.seen)
    assert np.array_equal(one.model.head.matrix, other.model.head.matrix)
    assert one.model.head.calibration == other.model.head.calibration
    with pytest.raises(UserError, match=r"was not taught: give the very file"):
        one.forget_photo(photos["red"][0])
    one.learn({"green": photos["red"][1:2]})
    with pytest.raises(UserError, match="was taught as 'green' and as 'red': name the class"):
        one.forget_photo(photos["red"][1])
    assert one.forget_photo(photos["red"][1], "green").name == "green"
    for path in photos["blue"][:-1]:
        one.forget_photo(path)
    assert "and with it the class" in str(one.forget_photo(photos["blue"][-1]))
    assert sorted(one.model.classes) == ["green", "red"]


def test_of_a_large_class_only_photos_that_are_kept_singly(tiny, tmp_path):
    photos = fakes.pixels(fakes.photos(tmp_path / "all", 40, colours=("red", "green")))
    classifier = Classifier(tiny)
    classifier.learn(photos)
    kept = [path for path in photos["red"] if photo_key(path) in classifier.model.classes["red"].sums.keys]
    summed = next(path for path in photos["red"] if path not in kept)
    before = classifier.model
    with pytest.raises(UserError, match="of its 40 photos 15 are kept singly, and this is one of the others"):
        classifier.forget_photo(summed)
    assert classifier.model is before
    assert not classifier.forget_photo(kept[0]).exact
    assert len(classifier.model.classes["red"].sums.keys) == 14
