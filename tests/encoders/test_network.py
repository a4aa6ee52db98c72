"""When a network normalises and drops as in training, and when not."""

import pytest
import torch

from protoreplay.encoders.network import Network
from protoreplay.encoders.registry import ENCODERS

SHAPE = (3, 8, 8)
IMAGES = torch.randint(0, 256, (6, *SHAPE), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


class Normalised(torch.nn.Module):
    """Batch normalisation of one number a channel, which one image alone has no variance of."""

    def __init__(self, shape):
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(torch.Size(shape).numel(), 6), torch.nn.BatchNorm1d(6)

    def forward(self, images):
        return self.norm(self.layer(images.flatten(1).float() / 255))


@pytest.fixture
def network(monkeypatch):
    monkeypatch.setattr(ENCODERS, "_session", {})
    ENCODERS.register("normalised", Normalised)
    return Network("normalised", SHAPE, 4, torch.Generator().manual_seed(0))


def test_a_network_is_in_training_mode_only_where_it_is_said(network):
    assert not network.training
    calm = network(IMAGES)
    with network.training_mode():
        assert network.training
        assert not torch.allclose(network(IMAGES), calm)
    assert not any(layer.training for layer in network.modules())
    assert int(network.trunk.norm.num_batches_tracked) == 1
    with pytest.raises(KeyboardInterrupt), network.training_mode():
        raise KeyboardInterrupt
    assert not network.training


def test_one_image_alone_is_normalised_by_what_was_seen_before(network):
    norm = network.trunk.norm
    with network.training_mode():
        network(IMAGES)
        seen = norm.running_mean.clone()
        alone = network(IMAGES[:1])
        assert norm.training
        assert torch.equal(norm.running_mean, seen)
    torch.testing.assert_close(alone, network(IMAGES[:1]))
    alone.sum().backward()
    assert norm.weight.grad is not None


def test_a_frozen_copy_neither_learns_nor_changes_with_its_original(network):
    with network.training_mode():
        teacher = network.frozen_copy()
        before = teacher(IMAGES)
        network(IMAGES)
        with torch.no_grad():
            network.head.weight.zero_()
    assert not teacher.training
    assert not before.requires_grad
    assert torch.equal(teacher(IMAGES), before)


def test_initial_weights_come_from_the_generator_alone():
    state = torch.random.get_rng_state()
    first, second, other = (Network("lenet", SHAPE, 4, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    assert not any(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters()))
