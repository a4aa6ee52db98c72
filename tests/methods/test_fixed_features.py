import pytest
import torch
from torch.nn import functional

from protoreplay.core.errors import UserError
from protoreplay.core.rng import generator
from protoreplay.encoders.network import Network
from protoreplay.methods.base import MethodContext
from protoreplay.methods.fixed_features import FeatureSettings, extractor
from protoreplay.methods.registry import METHODS
from tests.conftest import toy_task

SHAPE = (3, 32, 32)


def images(count=5, shape=SHAPE):
    return torch.randint(0, 256, (count, *shape), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def features(kind, shape=SHAPE, **settings):
    config = FeatureSettings(features=kind, encoder="lenet", **settings)
    return extractor(config, shape, generator(0, "initial weights"))


def test_pixels_are_raw():
    module, width = features("pixels")
    assert width == 3 * 32 * 32
    torch.testing.assert_close(module(images()), images().flatten(1).float() / 255)


def test_random_features_are_filters_rectified_and_averaged_over_quarters():
    module, width = features("random")
    assert width == 4 * 800
    assert module.filters.shape == (800, 3, 6, 6)
    found = module(images(40))  # more than are convolved at a time
    maps = functional.conv2d(images(40).float() / 255, module.filters, stride=2).relu()
    assert maps.shape[-2:] == (14, 14)
    quarters = [maps[:, :, a : a + 7, b : b + 7].mean((2, 3)) for a in (0, 7) for b in (0, 7)]
    expected = torch.stack(quarters, 2).flatten(1)
    torch.testing.assert_close(found, expected / expected.norm(dim=1, keepdim=True), rtol=1e-4, atol=1e-6)


def test_random_features_do_not_see_brightness():
    module, _ = features("random", filters=50)
    dark = images() // 2
    torch.testing.assert_close(module(dark), module(dark + 100), rtol=1e-3, atol=1e-4)


def test_images_smaller_than_a_filter():
    module, width = features("random", shape=(1, 4, 4), filters=7)
    assert module(images(shape=(1, 4, 4))).shape == (5, width) == (5, 28)


def test_encoder_features_are_those_of_the_untrained_trunk_of_unit_length():
    """The same trunk as every method that trains starts with."""
    module, width = features("encoder")
    trunk = Network("lenet", SHAPE, 10, generator(0, "initial weights")).trunk(images())
    assert width == 500
    torch.testing.assert_close(module(images()), trunk / trunk.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("name", ["nearest-mean", "nearest-mean-random", "nearest-mean-encoder"])
def test_the_nearest_mean_of_features(name):
    recipe = METHODS.get(name)
    method = recipe.build(recipe.settings({}, {}, name), MethodContext((1, 8, 8), 10))
    tasks = [toy_task(1, (3, 8)), toy_task(2, (5,))]
    for task in tasks:
        method.learn(task)
    x, y = (torch.cat([getattr(task, part) for task in tasks]) for part in ("images", "labels"))
    means = torch.stack([method.embed(x[y == label]).mean(0) for label in (3, 5, 8)])
    new = images(30, (1, 8, 8))
    nearest = torch.cdist(method.embed(new), means).argmin(1)
    assert torch.equal(method.predict(new), torch.tensor([3, 5, 8])[nearest])


def test_an_unknown_encoder_is_refused_in_one_line():
    with pytest.raises(UserError, match="encoder=resnet: unknown encoder 'resnet' to train"):
        METHODS.get("nearest-mean-encoder").settings({}, {"encoder": "resnet"}, "nearest-mean-encoder")
