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


def test_square_roots_of_pixels_have_unit_length_and_know_no_neighbours():
    images = torch.randint(0, 256, (6, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    body = RootPixels((1, 8, 8))
    order = torch.randperm(64)
    torch.testing.assert_close(body(images).square().sum(1), torch.ones(6))
    shuffled = images.flatten(2)[:, :, order].view_as(images)
    torch.testing.assert_close(body(shuffled), body(images)[:, order])
