import threading

import numpy as np
import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.photos import model_file
from protoreplay.photos.embedding import embed_photos
from protoreplay.photos.teaching import prepare_photos
from protoreplay.photos.undo import UndoableModel
from tests.photos import fakes


@pytest.fixture
def photos(tmp_path):
    return fakes.pixels(fakes.photos(tmp_path / "photos"))


@pytest.fixture
def prepared(served, photos):
    """Photos of some classes, ready to be learned."""
    return lambda **classes: prepare_photos(classes, lambda some: embed_photos(served.encoder, some))


def test_a_failed_change_leaves_everything(served, photos, prepared, monkeypatch):
    served.learn(prepared(red=photos["red"]))
    before, content = served.current, served.path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    blue = prepared(blue=photos["blue"])
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "write_whole", full)
        for change in (
            lambda: served.learn(blue),
            lambda: served.change(UndoableModel.undone),
            lambda: served.forget("red"),
        ):
            with pytest.raises(OSError, match="disk full"):
                change()
    with pytest.raises(UserError, match="unknown class 'nothing'"):
        served.forget("nothing")
    assert served.current is before
    assert served.path.read_bytes() == content
    served.change(UndoableModel.undone)
    assert not served.current.model.classes


def test_what_the_command_line_taught_meanwhile_is_kept(served, photos, prepared):
    served.learn(prepared(red=photos["red"]))
    other = Classifier.load(served.path, served.encoder.name, cache=False)
    other.learn({"green": photos["green"]})
    other.save(served.path)
    served.learn(prepared(blue=photos["blue"]))
    assert set(served.current.model.classes) == {"red", "green", "blue"}
    for left in ({"red", "green"}, {"red"}, set()):
        served.change(UndoableModel.undone)
        assert set(served.current.model.classes) == left, "what the command line did is a step like any other"


def test_a_revision_never_changes(served, photos, prepared):
    served.learn(prepared(red=photos["red"]))
    revision = served.current
    total = revision.model.classes["red"].sums.rows.copy()
    served.learn(prepared(red=photos["blue"], green=photos["green"]))
    assert (revision.number, served.current.number) == (1, 2)
    assert set(revision.model.classes) == {"red"}
    assert np.array_equal(revision.model.classes["red"].sums.rows, total)


def test_changes_from_many_threads_are_all_made(served, photos, prepared):
    def teach(number):
        served.learn(prepared(**{f"class {number}": [photos["red"][number]]}))

    threads = [threading.Thread(target=teach, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(model_file.read_model(served.path).classes) == 6
    assert served.current.number == 6
