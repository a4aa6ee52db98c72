import math

import pytest
import torch
from torch.nn import functional

from protoreplay.methods.base import MethodContext
from protoreplay.methods.der import DER, DERConfig
from protoreplay.methods.er_ace import ERACE, ERACEConfig
from tests.conftest import toy_task

TASKS = [toy_task(1, (3, 8)), toy_task(2, (5,)), toy_task(3, (3, 5))]


def built(method, config, **settings):
    settings = {"encoder": "conv-small", "epochs": 1, "budget": 6, **settings}
    return method(config(**settings), MethodContext((1, 8, 8), 10))


def losses(method, task):
    met = []
    method.learn(task, lambda step, steps, loss: met.append(loss))
    return met


@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_the_first_steps_loss_of_dark_experience_replay_is_the_formulas(beta):
    method = built(DER, DERConfig, alpha=0.4, beta=beta)
    method.learn(TASKS[0])
    stored, scores = method.memory, method.stored_scores
    network = method.network.frozen_copy()
    torch.testing.assert_close(scores, network(stored.images))  # as the first task left the network
    new, columns = network(TASKS[1].images)[:, [3, 5, 8]], torch.ones(4, dtype=torch.int64)
    expected = functional.cross_entropy(new, columns)
    method.stored_scores = scores + torch.arange(10.0)  # so that there is a difference
    expected = expected + 0.4 * torch.arange(10.0).square().mean()
    old = torch.where(stored.classes == 3, 0, 2)
    expected = expected + beta * functional.cross_entropy(network(stored.images)[:, [3, 5, 8]], old)
    assert losses(method, TASKS[1])[0] == pytest.approx(expected.item(), rel=1e-4)


def test_scores_stay_with_their_images_as_the_memory_shrinks():
    method = built(DER, DERConfig)
    method.learn(TASKS[0])
    before = {image.numpy().tobytes(): row for image, row in zip(method.memory.images, method.stored_scores)}
    method.learn(TASKS[1])
    method.learn(TASKS[2])
    assert len(method.memory) == len(method.stored_scores) == 5
    kept = [(image.numpy().tobytes(), row) for image, row in zip(method.memory.images, method.stored_scores)]
    old = [(image, row) for image, row in kept if image in before]
    assert len(old) == 2
    assert all(torch.equal(row, before[image]) for image, row in old)


def test_er_aces_new_images_compete_with_new_classes_alone():
    method = built(ERACE, ERACEConfig, budget=9)
    method.learn(TASKS[0])
    network = method.network.frozen_copy()
    task = toy_task(2, (1, 5))
    first = losses(method, task)[0]
    new = functional.cross_entropy(network(task.images)[:, [1, 5]], torch.where(task.labels == 1, 0, 1))
    memory = method.memory  # has its share of the task from the start
    assert memory.classes.bincount()[[1, 3, 5, 8]].tolist() == [2, 2, 2, 2]
    among_all = network(memory.images)[:, [1, 3, 5, 8]]
    replayed = functional.cross_entropy(among_all, torch.searchsorted(torch.tensor([1, 3, 5, 8]), memory.classes))
    assert first == pytest.approx((new + replayed).item(), rel=1e-4)


@pytest.mark.parametrize(("method", "config"), [(DER, DERConfig), (ERACE, ERACEConfig)])
def test_without_a_budget_nothing_is_kept_and_nothing_fails(method, config):
    made = built(method, config, budget=0)
    for task in TASKS:
        assert all(math.isfinite(loss) for loss in losses(made, task))
    assert len(made.memory) == 0
