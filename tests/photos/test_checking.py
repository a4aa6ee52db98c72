import shutil

import numpy as np
import pytest
from PIL import Image

from protoreplay import Classifier
from protoreplay.photos import checking
from tests.photos import fakes


@pytest.fixture
def found(tiny, tmp_path):
    """What is found in a folder with everything wrong with it once."""

    def check(folder):
        classifier = Classifier(tiny, cache=False)
        photos = {name: list(classifier.embed(some)) for name, some in fakes.pixels(folder).items()}
        findings = checking.check_photos(classifier.encoder.name, classifier.encoder.fingerprint, photos)
        return {kind: [one for one in findings if one.kind == kind] for kind in {one.kind for one in findings}}

    return check


def test_a_good_folder_has_nothing_to_look_at(found, tmp_path):
    assert found(fakes.photos(tmp_path / "photos")) == {}


def test_each_thing_is_found_and_named(found, tmp_path):
    folder = fakes.photos(tmp_path / "photos", 45)  # more than a model keeps singly
    fakes.photos(folder, 2, colours=("yellow",))
    shutil.copy(folder / "red" / "003.png", folder / "blue" / "900.png")
    fakes.photo("green", 999).save(folder / "red" / "901.png")
    blocks = np.random.default_rng(0).integers(0, 90, (8, 9, 1)) + np.array([0, 20, 120])
    photo = Image.fromarray(blocks.astype(np.uint8)).resize((90, 90), Image.Resampling.NEAREST)
    photo.save(folder / "blue" / "902.png")
    photo.resize((60, 60)).save(folder / "blue" / "903.png")
    photo.resize((80, 80)).save(folder / "yellow" / "904.png")
    (folder / "red" / "broken.png").write_bytes(b"?")
    by_kind = found(folder)
    assert by_kind.keys() >= {"unreadable", "two classes", "alike in two classes", "misplaced", "alike", "too few"}
    assert by_kind["unreadable"][0].photos == (str(folder / "red" / "broken.png"),)
    same = by_kind["two classes"][0]
    assert set(same.photos) == {str(folder / "red" / "003.png"), str(folder / "blue" / "900.png")}
    assert "the same photo is in 'blue' and 'red'" in same.text
    assert any(str(folder / "yellow" / "904.png") in one.photos for one in by_kind["alike in two classes"])
    misplaced = {one.photos[0]: one.classes for one in by_kind["misplaced"]}
    assert misplaced[str(folder / "red" / "901.png")] == ("red", "green")
    assert {str(folder / "blue" / name) for name in ("902.png", "903.png")} <= set(by_kind["alike"][0].photos)
    assert by_kind["too few"][0].text == "'yellow' has too few distinct photos: 3, teach at least 5"
    assert '"kind": "two classes"' in same.as_json()
