import copy

import torch

from protoreplay.methods.base import MethodContext
from protoreplay.methods.lwf import LwF, LwFConfig
from tests.conftest import toy_task

OLD, NEW = toy_task(1, (0, 1, 2)), toy_task(2, (3,))


def taught(**settings):
    """A network that knows three classes, and a copy of it, which the next task will take as its teacher."""
    method = LwF(LwFConfig(**{"encoder": "conv-small", "epochs": 60, **settings}), MethodContext((1, 8, 8), 10))
    method.learn(OLD)
    return method, copy.deepcopy(method.network)


def divergence(method, teacher, images):
    """Of the old classes' probabilities from those that the network gave before."""
    with torch.no_grad():
        p, q = (network(images)[:, :3].softmax(1) for network in (teacher, method.network))
    return (p * (p / q).log()).sum(1).mean().item()


def test_a_strong_lwf_keeps_to_the_previous_networks_outputs_on_the_new_images():
    drifts = []
    for strength in (0.0, 100.0):
        method, teacher = taught(strength=strength)
        method.learn(NEW)
        drifts.append(divergence(method, teacher, NEW.images))
        assert (method.predict(NEW.images) == 3).all()
    assert drifts[1] < 0.05 * drifts[0]


def test_the_first_steps_loss_is_cross_entropy_alone_because_nothing_has_changed_yet():
    method, teacher = taught(strength=1e6)
    expected = torch.nn.functional.cross_entropy(teacher(NEW.images)[:, :4], NEW.labels).item()
    losses = []
    method.learn(NEW, lambda step, steps, loss: losses.append(loss))
    assert abs(losses[0] - expected) < 1e-2
    assert max(losses[1:]) > 2 * expected


def test_nothing_but_the_network_and_its_optimiser_is_kept():
    method, _ = taught(epochs=1)
    assert {item.name for item in method.ledger()} == {"classes", "network", "optimizer"}
