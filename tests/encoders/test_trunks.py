import pytest
import torch

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


def pictures(count=6, shape=(3, 32, 32)):
    """Smooth random pictures: neighbouring pixels are alike."""
    random = torch.Generator().manual_seed(count)
    coarse = 255 * torch.rand(count, shape[0], shape[1] // 4, shape[2] // 4, generator=random)
    return torch.nn.functional.interpolate(coarse, scale_factor=4.0, mode="bilinear").to(torch.uint8)


class Normalised(torch.nn.Module):
    """Batch normalisation of one number a channel, which one image alone has no variance of."""

    def __init__(self, shape):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(torch.Size(shape).numel(), 6), torch.nn.BatchNorm1d(6)
        )

    def forward(self, images):
        return self.layers(images.float() / 255)


@pytest.fixture
def normalised(monkeypatch):
    monkeypatch.setattr(ENCODERS, "_session", {})
    ENCODERS.register("normalised", Normalised)
    return parameters("normalised", (3, 32, 32), 4)[0]


def test_a_network_is_in_training_mode_only_where_it_is_said(normalised):
    images = pictures()
    assert not normalised.training
    calm = normalised(images)
    with normalised.training_mode():
        assert normalised.training
        assert not torch.allclose(normalised(images), calm)
    assert not any(layer.training for layer in normalised.modules())
    norm = normalised.trunk.layers[2]
    assert int(norm.num_batches_tracked) == 1
    with pytest.raises(KeyboardInterrupt), normalised.training_mode():
        raise KeyboardInterrupt
    assert not normalised.training


def test_one_image_alone_is_normalised_by_what_was_seen_before(normalised):
    images, norm = pictures(), normalised.trunk.layers[2]
    with normalised.training_mode():
        normalised(images)
        seen = norm.running_mean.clone()
        alone = normalised(images[:1])
        assert norm.training
        assert torch.equal(norm.running_mean, seen)
    torch.testing.assert_close(alone, normalised(images[:1]))
    alone.sum().backward()
    assert norm.weight.grad is not None


def test_a_frozen_copy_neither_learns_nor_changes_with_its_original(normalised):
    images = pictures()
    with normalised.training_mode():
        teacher = normalised.frozen_copy()
        before = teacher(images)
        normalised(images)
        with torch.no_grad():
            normalised.head.weight.zero_()
    assert not teacher.training
    assert not before.requires_grad
    assert torch.equal(teacher(images), before)


def test_square_roots_of_pixels_have_unit_length_and_know_no_neighbours():
    images = torch.randint(0, 256, (6, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    body = RootPixels((1, 8, 8))
    order = torch.randperm(64)
    torch.testing.assert_close(body(images).square().sum(1), torch.ones(6))
    shuffled = images.flatten(2)[:, :, order].view_as(images)
    torch.testing.assert_close(body(shuffled), body(images)[:, order])
