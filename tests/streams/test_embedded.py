"""A stream as features: what methods meet is what the encoder makes of each image by itself."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from protoreplay.core.errors import UserError
from protoreplay.core.rng import generator
from protoreplay.encoders.dictionary import DictionarySettings, PatchDictionary
from protoreplay.encoders.pretrained import open_encoder
from protoreplay.streams.embedded import embedded, fingerprint_of
from protoreplay.streams.protocols import make_stream


def digits(**settings):
    return make_stream("split-digits", tasks=2, shots=2, test_images=2, **settings)


def test_features_of_a_network_are_its_roots_of_unit_length_of_the_resized_image():
    stream = digits()
    task = embedded(stream, "lite0", 0).task(1)
    image = stream.task(1).images[1:2].expand(-1, 3, -1, -1).float()
    larger = functional.interpolate(image, size=(128, 128), mode="bilinear", antialias=True)
    features = open_encoder("lite0").embed(larger.round().clamp(0, 255).to(torch.uint8).numpy())
    roots = np.sign(features) * np.sqrt(np.abs(features))
    np.testing.assert_allclose(task.images[1, :, 0, 0].numpy(), (roots / np.linalg.norm(roots))[0], atol=1e-6)


def test_pixels_are_as_they_are_and_the_draw_is_that_of_the_images():
    stream = digits()
    given = embedded(stream, "pixels", 0)
    assert given.image_shape == (64, 1, 1)
    assert torch.equal(given.task(2).images.flatten(1), stream.task(2).images.flatten(1) / 255)
    assert torch.equal(given.test_set(1)[0].flatten(1), stream.test_set(1)[0].flatten(1) / 255)
    assert given.shots() == stream.shots()


def test_pixel_orders_are_features_of_their_own():
    stream = make_stream("permuted-digits", tasks=2, first_shots=2, shots=2, test_images=1)
    given = embedded(stream, "random", 0)
    alone = given.encoder.embed(stream.test_set(2)[0][3:4])
    assert torch.equal(given.test_set(2)[0][3:4].flatten(1), alone)
    assert not torch.equal(given.test_set(1)[0], given.test_set(2)[0])


def test_the_dictionary_is_that_of_vpr_with_the_same_seed():
    settings, stream = DictionarySettings(filters=8, latent=6, patch=3, copies=20), digits(seed=3)
    body = PatchDictionary((1, 8, 8), settings)
    body.fit(stream.task(1).images, generator(3, "VPR", "learn", 1))
    given = embedded(stream, "dictionary", 3, settings)
    torch.testing.assert_close(given.test_set(2)[0].flatten(1), body(stream.test_set(2)[0]), rtol=1e-4, atol=1e-5)
    assert given.encoder.fingerprint != embedded(digits(seed=4), "dictionary", 4, settings).encoder.fingerprint


NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = torch.nn.Linear(64, 5)
    def forward(self, images):
        return self.layer(images.flatten(1) / 255.0){more}
"""


def test_a_network_of_the_users_is_frozen_and_known_by_its_code_and_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, more in (("one", ""), ("two", ""), ("three", " * 2")):
        (tmp_path / f"{name}.py").write_text(NET.format(more=more))
    shape = (1, 8, 8)
    assert fingerprint_of("one.py:Net", shape) == fingerprint_of("two.py:Net", shape)
    assert fingerprint_of("one.py:Net", shape) != fingerprint_of("three.py:Net", shape)
    stream = digits()
    one, three = (embedded(stream, f"{name}.py:Net", 0).task(1).images for name in ("one", "three"))
    assert torch.equal(2 * one, three)
    with pytest.raises(UserError, match="not the one this run was planned with"):
        embedded(stream, "one.py:Net", 0, expected=fingerprint_of("three.py:Net", shape))
