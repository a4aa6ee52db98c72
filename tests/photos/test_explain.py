import io

import numpy as np
import pytest
from PIL import Image

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.encoders import onnx_graph
from protoreplay.encoders.pretrained import FrozenEncoder, open_encoder
from protoreplay.photos.explain import explain_photo
from protoreplay.photos.explain_picture import explanation_as_png
from protoreplay.prototypes.sums import rooted
from tests.photos import fakes


def halves(left, right):
    """A photo of two colours, 3 x 32 x 32."""
    one, other = (np.asarray(fakes.photo(name, 900).resize((32, 32))) for name in (left, right))
    return np.concatenate([one[:, :16], other[:, 16:]], 1).transpose(2, 0, 1)


@pytest.mark.parametrize("maps", [False, True], ids=["averages itself", "maps averaged by us"])
def test_the_part_that_shows_the_class_speaks_for_it(tmp_path, maps):
    encoder = fakes.tiny_encoder(tmp_path / "e.onnx", maps=maps)
    classifier = Classifier(str(encoder), keep=3)
    classifier.learn(fakes.pixels(fakes.photos(tmp_path / "photos", colours=("red", "blue"))))
    pixels = halves("red", "blue")
    found = explain_photo(classifier.model, classifier.encoder, pixels, "two")
    names = [choice.label for choice in found.answer.choices]
    assert found.lead.shape == (8, 8)
    by_half = {"red": found.lead[:, :4].mean(), "blue": found.lead[:, 4:].mean()}
    assert by_half[names[0]] > 0 > by_half[({"red", "blue"} - {names[0]}).pop()]
    assert (found.lead.argmax() % 8 < 4) == (names[0] == "red")
    assert found.strongest_place().startswith("the ")
    (same,) = classifier.predict([pixels.transpose(1, 2, 0)])
    assert found.answer.choices[0].probability == pytest.approx(same.choices[0].probability, abs=1e-5)
    picture = Image.open(io.BytesIO(explanation_as_png(found)))
    assert np.asarray(picture).std() > 20
    assert [bool(kept.thumbnail) for kept in found.nearest].count(True) >= 1
    assert sorted(-kept.likeness for kept in found.nearest) == [-kept.likeness for kept in found.nearest]


def test_what_a_place_adds_is_what_the_lead_loses_without_it(taught, tiny):
    """The filters look at 4 x 4 pixels each, so that features without a place can be made from the other places."""
    pixels = halves("red", "green")
    found = explain_photo(taught.model, taught.encoder, pixels, "two")
    head, encoder = taught.model.head, open_encoder(tiny)
    # The places of one row, each as a photo of its own that shows nothing else.
    each = np.stack([np.tile(pixels[:, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4], (1, 8, 8)) for r, c in np.ndindex(8, 8)])
    every = encoder.embed(each).astype(np.float64)
    one, other = (head.names.index(choice.label) for choice in found.answer.choices)
    whole, left = (head.scores(rooted(rows))[0] for rows in (every.mean(0)[None], (every.sum(0) - every) / 63))
    lost = (whole[:, one] - whole[:, other]) - (left[:, one] - left[:, other])
    assert found.lead.ravel() == pytest.approx(lost, abs=1e-3 * float(np.abs(lost).max()))


def test_the_built_in_encoder(tmp_path):
    classifier = Classifier("lite0@64", cache=False)
    classifier.learn(fakes.pixels(fakes.photos(tmp_path / "photos", 2, colours=("red",))))
    pixels = np.asarray(fakes.photo("red", 5).resize((64, 64))).transpose(2, 0, 1)
    found = explain_photo(classifier.model, classifier.encoder, pixels, "one")
    assert found.lead.shape == (2, 2)
    assert len(found.answer.choices) == 1
    assert len(found.nearest) == 2
    assert "photo" in str(found.nearest[0])
    assert explanation_as_png(found).startswith(b"\x89PNG")


def test_an_encoder_without_maps_says_so(taught):
    make = onnx_graph.GraphBuilder()
    make.add("Flatten", onnx_graph.normalise(make, [0] * 3, [1] * 3), output="features", axis=1)
    graph = make.model([onnx_graph.pixels(8)], [onnx_graph.value("features", "N", 192)])
    flat = FrozenEncoder("flat", 8, "f", graph.SerializeToString())
    with pytest.raises(UserError, match="flat does not average feature maps"):
        explain_photo(taught.model, flat, np.zeros((3, 8, 8), np.uint8), "x")
