import threading

import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.photos import model_file
from tests.photos import fakes


@pytest.fixture
def photos(tmp_path):
    return fakes.pixels(fakes.photos(tmp_path / "photos"))


def test_a_failed_change_leaves_everything(keeper, photos, monkeypatch):
    keeper.change(lambda classifier: classifier.learn({"red": photos["red"]}))
    before, content = keeper.current, keeper.path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(model_file, "write_whole", full)
        for work in (lambda c: c.learn({"blue": photos["blue"]}), lambda c: c.undo()):
            with pytest.raises(OSError, match="disk full"):
                keeper.change(work)
    with pytest.raises(UserError):
        keeper.change(lambda classifier: classifier.forget("nothing"))
    assert keeper.current is before
    assert keeper.path.read_bytes() == content
    keeper.change(lambda classifier: classifier.undo())
    assert not keeper.current.classifier.model.concepts


def test_what_the_command_line_taught_meanwhile_is_kept(keeper, photos, tiny):
    keeper.change(lambda classifier: classifier.learn({"red": photos["red"]}))
    other = Classifier.load(keeper.path, cache=False)
    other.learn({"green": photos["green"]})
    other.save(keeper.path)
    keeper.change(lambda classifier: classifier.learn({"blue": photos["blue"]}))
    assert set(keeper.current.classifier.model.concepts) == {"red", "green", "blue"}
    # Undo goes back to what was found, not past it.
    assert keeper.current.classifier.undoable == 1


def test_changes_from_many_threads_are_all_made(keeper, photos):
    def teach(number):
        keeper.change(lambda c: c.learn({f"class {number}": [photos["red"][number]]}))

    threads = [threading.Thread(target=teach, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(model_file.read_model(keeper.path).concepts) == 6
    assert keeper.current.revision == 6
