import pytest
import torch

from protoreplay.encoders.dictionary import PatchDictionary, turn_and_zoom
from protoreplay.encoders.fixed import RootPixels
from protoreplay.encoders.network import Network
from protoreplay.encoders.registry import ENCODERS


def parameters(name, shape, outputs):
    network = Network(name, shape, outputs, torch.Generator().manual_seed(0))
    return network, {key: tuple(value.shape) for key, value in network.named_parameters()}


def test_the_papers_networks_have_the_papers_sizes():
    _, lenet = parameters("lenet", (3, 32, 32), 1000)
    weights = [shape for key, shape in lenet.items() if key.endswith("weight")]
    assert weights == [(20, 3, 5, 5), (50, 20, 5, 5), (500, 3200), (1000, 500)]
    assert sum(torch.Size(shape).numel() for shape in weights) == 1500 + 25000 + 1600000 + 500000
    _, mlp = parameters("mlp-1000", (1, 28, 28), 128)
    assert [shape for key, shape in mlp.items() if key.endswith("weight")] == [(1000, 784), (1000, 1000), (128, 1000)]
    _, conv5 = parameters("conv5", (3, 32, 32), 1000)
    weights = [shape for key, shape in conv5.items() if key.endswith("weight")]
    assert [shape[0] for shape in weights[:5]] == [64, 128, 128, 256, 256]
    assert weights[5:] == [(500, 1024), (1000, 500)]


@pytest.mark.parametrize("name", [name for name, entry in ENCODERS.items() if entry.kind == "trained"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 84, 84)])
def test_every_encoder_takes_every_shape(name, shape):
    network, _ = parameters(name, shape, 12)
    images = torch.randint(0, 256, (2, *shape), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert network(images).shape == (2, 12)
    mean, logvar = network.gaussian(images)
    assert mean.shape == logvar.shape == (2, 6)


@pytest.mark.parametrize("name", ["conv-small", "lenet"])
def test_features_do_not_depend_on_the_layout_in_memory_or_on_when_the_threshold_comes(name):
    network, _ = parameters(name, (3, 32, 32), 12)
    images = torch.randint(0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    first, second, hidden = (m for m in network.trunk if isinstance(m, torch.nn.Conv2d | torch.nn.Linear))
    plain = images.float() / 127.5 - 1
    for layer in (first, second):
        plain = torch.nn.functional.max_pool2d(layer(plain).relu(), 2)
    torch.testing.assert_close(network.trunk(images), hidden(plain.flatten(1)).relu())
    torch.testing.assert_close(network(images.to(memory_format=torch.channels_last)), network(images))


def test_one_seed_one_trunk_whatever_the_head():
    small, large = (parameters("lenet", (3, 32, 32), outputs)[0] for outputs in (10, 1000))
    for key, value in small.trunk.state_dict().items():
        assert torch.equal(value, large.trunk.state_dict()[key])


def test_initial_weights_are_spread_as_pytorchs_own():
    ours = parameters("lenet", (3, 32, 32), 10)[0].trunk[8].weight.detach()
    theirs = torch.nn.Linear(3200, 500).weight.detach()
    assert float(ours.std() / theirs.std()) == pytest.approx(1, rel=0.01)
    assert float(ours.abs().max() / theirs.abs().max()) == pytest.approx(1, rel=0.01)


def dictionary(images, seed=0, **sizes):
    body = PatchDictionary(images.shape[1:], **{"filters": 8, "side": 4, "width": 10, "mirror": True, **sizes})
    body.fit(images, torch.Generator().manual_seed(seed))
    return body


def pictures(count=6, shape=(3, 32, 32)):
    """Smooth random pictures: neighbouring pixels are alike."""
    random = torch.Generator().manual_seed(count)
    coarse = 255 * torch.rand(count, shape[0], shape[1] // 4, shape[2] // 4, generator=random)
    return torch.nn.functional.interpolate(coarse, scale_factor=4.0, mode="bilinear").to(torch.uint8)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 84, 84)])
def test_a_dictionary_is_made_of_images_of_any_size(shape):
    images = pictures(shape=shape)
    body = dictionary(images)
    assert body(images).shape == (6, 10)
    torch.testing.assert_close(body.answers(images).flatten(1).norm(dim=1), torch.ones(6))
    assert same_weights(body, dictionary(images))
    assert not same_weights(body, dictionary(images, seed=1))


def same_weights(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True))


def test_a_dictionary_sees_neither_brightness_nor_contrast_where_contrast_is_high():
    images = pictures().float()
    body = dictionary(images)
    changed = images * 0.9 + 20
    torch.testing.assert_close(body.answers(changed), body.answers(images), atol=0.02, rtol=0)


def test_filters_of_a_dictionary_do_not_see_the_mean():
    body = dictionary(pictures())
    assert body.filters.sum(1).abs().max() < 1e-4


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8)])
def test_answers_of_a_dictionary_are_thresholded_convolutions_averaged_over_fields(shape):
    images = pictures(shape=shape)
    body = dictionary(images, mirror=False)
    filters = body.filters.view(8, shape[0], 4, 4)
    patches = torch.nn.functional.unfold(images.float(), 4, stride=body.stride)
    answer = torch.nn.functional.conv2d(images.float(), filters, stride=body.stride)
    answer /= (patches.var(1).view(len(images), 1, *answer.shape[2:]) + body.CONTRAST).sqrt()
    answer -= body.offset[:, None, None]
    both = torch.cat([(answer - body.THRESHOLD).relu(), (-answer - body.THRESHOLD).relu()], 1)
    pooled = torch.nn.functional.adaptive_avg_pool2d(both, body.GRID).flatten(2).sqrt()
    expected = torch.nn.functional.normalize(pooled.flatten(1)).view_as(pooled).transpose(1, 2)
    torch.testing.assert_close(body.answers(images), expected, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("side", [4, 8])
def test_a_dictionary_may_give_an_image_and_its_mirror_image_the_same_features(side):
    images = pictures()
    body = dictionary(images, side=side)
    features, mirrored = body(images), body(images.flip(-1))
    torch.testing.assert_close(features, mirrored, rtol=1e-3, atol=1e-4)
    body = dictionary(images, side=side, mirror=False)
    assert (body(images) - body(images.flip(-1))).abs().max() > 0.01
    # The roots of both sides, added up, of unit length: the answers of either alone, mirrored back, give the direction.
    both = body.answers(images) + body.answers(images.flip(-1))
    body.mirror = True
    similar = torch.nn.functional.cosine_similarity(both.flatten(1), body.answers(images).flatten(1))
    assert similar.min() > 0.999


def test_features_of_a_dictionary_are_decorrelated_over_the_images_it_was_made_of():
    images = pictures()
    body = dictionary(images, width=5)
    copies = turn_and_zoom(images.repeat(200, 1, 1, 1), torch.Generator().manual_seed(5))
    correlation = body(copies).T.corrcoef()
    assert (correlation - torch.eye(5)).abs().max() < 0.25


def test_one_image_of_one_colour_makes_a_dictionary_without_directions():
    body = dictionary(torch.full((1, 3, 32, 32), 7, dtype=torch.uint8))
    assert torch.isfinite(body(pictures())).all()


def test_square_roots_of_pixels_have_unit_length_and_know_no_neighbours():
    images = pictures(shape=(1, 8, 8))
    body = RootPixels((1, 8, 8))
    order = torch.randperm(64)
    torch.testing.assert_close(body(images).square().sum(1), torch.ones(6))
    shuffled = images.flatten(2)[:, :, order].view_as(images)
    torch.testing.assert_close(body(shuffled), body(images)[:, order])
