import dataclasses

import numpy as np
import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos import suggesting
from tests.photos import fakes


@pytest.fixture
def embedded(taught, tmp_path):
    """Thirty photos of known colours, ten of a new one, one that was taught and one that is broken."""
    folder = fakes.photos(tmp_path / "pool", 10, 40, tuple(fakes.COLOURS))
    known = fakes.photos(tmp_path / "known", 1, colours=("red",))
    (known / "red" / "x.png").write_bytes(b"?")
    return list(taught.embed(sorted(p for place in (folder, known) for p in place.glob("*/*.png"))))


def test_what_is_unknown_is_asked_for_first_and_once(taught, embedded):
    found = suggesting.suggest_photos(taught.model, embedded, 3)
    assert "yellow" in found[0].answer.photo
    assert found[0].answer.label is None
    assert found[0].unsure == 1
    assert found[0].like_it > 0
    assert "unknown, closest is" in str(found[0])
    assert len({one.answer.photo for one in found}) == 3
    assert found == suggesting.suggest_photos(taught.model, embedded, 3)
    everything = suggesting.suggest_photos(taught.model, embedded, 100)
    assert len(everything) == 40, "neither what was taught nor what is broken"


def test_of_photos_that_are_alike_one_is_suggested(taught, embedded):
    yellow = next(one for one in embedded if "yellow" in one.name)
    green = next(one for one in embedded if "green" in one.name and "pool" in one.name)
    again = [dataclasses.replace(yellow, name=f"copy {i}", key=i + 1) for i in range(8)]
    found = suggesting.suggest_photos(taught.model, [yellow, *again, green], 5)
    assert [one.answer.photo for one in found] == [yellow.name, green.name]
    assert found[0].like_it == 8


def test_many_photos_are_cut_to_the_most_unsure(taught, embedded, monkeypatch):
    monkeypatch.setattr(suggesting, "MOST_COMPARED", 10)
    found = suggesting.suggest_photos(taught.model, embedded, 40)
    assert len(found) == 10
    assert all(one.unsure >= 0 for one in found)
    assert np.mean(["yellow" in one.answer.photo for one in found]) > 0.5


def test_links(taught, embedded, tmp_path):
    found = suggesting.suggest_photos(taught.model, embedded, 2)
    links = suggesting.link_suggestions(found, tmp_path / "next")
    assert [str(link.resolve()) for link in links] == [one.answer.photo for one in found]
    with pytest.raises(UserError, match="not empty"):
        suggesting.link_suggestions(found, tmp_path / "next")
    with pytest.raises(UserError, match="at least 1"):
        suggesting.suggest_photos(taught.model, embedded, 0)
