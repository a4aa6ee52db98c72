import json

import numpy as np
import onnxruntime
import pytest

from protoreplay import Classifier
from protoreplay.data import pictures
from protoreplay.photos.export import to_onnx
from tests.photos import fakes


@pytest.mark.parametrize("options", [{}, {"opset": 20, "maps": True}])
@pytest.mark.parametrize("unknown", [0.05, 0.0])
def test_the_exported_file_answers_the_same(tmp_path, options, unknown):
    encoder = fakes.tiny_encoder(tmp_path / "e.onnx", **options)
    classifier = Classifier(str(encoder), unknown=unknown)
    classifier.learn(fakes.pixels(fakes.photos(tmp_path / "taught")))
    session = onnxruntime.InferenceSession(to_onnx(classifier.model, classifier.encoder))
    about = session.get_modelmeta().custom_metadata_map
    names = json.loads(about["classes"])
    assert names == ["blue", "green", "red"]
    assert int(about["size"]) == fakes.SIZE
    asked = fakes.photos(tmp_path / "asked", 5, start=30, colours=tuple(fakes.COLOURS))
    photos = sorted(asked.glob("*/*"))
    pixels = np.stack([pictures.decode_picture(path, fakes.SIZE, fast=True)[0] for path in photos])
    labels, probabilities, familiarity = session.run(None, {"pixels": pixels})
    answers = list(classifier.predict(photos))
    assert [None if k < 0 else names[k] for k in labels] == [answer.label for answer in answers]
    assert (labels < 0).any() == bool(unknown)
    for row, answer in zip(probabilities, answers):
        assert {c.label: c.probability for c in answer.choices} == pytest.approx(dict(zip(names, row)), abs=1e-4)
    if unknown:
        assert np.allclose(familiarity, [answer.familiarity for answer in answers], atol=1e-3)
