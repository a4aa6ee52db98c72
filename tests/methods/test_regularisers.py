"""Regularisers on problems with a known answer."""

import pytest
import torch
from torch import nn

from protoreplay.encoders.network import Network
from protoreplay.methods import importance
from protoreplay.methods.base import MethodContext
from protoreplay.methods.penalty import Quadratic, no_importance, penalised, weights
from protoreplay.methods.registry import METHODS
from tests.conftest import toy_task

NAMES = ["l2", "ewc", "online-ewc", "si", "mas"]
QUICK = {"encoder": "conv-small", "epochs": 5}
TASKS = [toy_task(1, (0, 1)), toy_task(2, (2,)), toy_task(3, (3, 4))]


def build(name, **settings):
    recipe = METHODS.get(name)
    return recipe.build(recipe.settings(QUICK, settings, name), MethodContext((1, 8, 8), 10))


def taught(name, tasks=3, **settings):
    method = build(name, **settings)
    for task in TASKS[:tasks]:
        method.learn(task)
    return method


def vector(weights):
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def random_weights(network, generator):
    return {name: torch.rand(w.shape, generator=generator) for name, w in network.named_parameters()}


class Point(nn.Module):
    """Three weights and nothing else."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3, dtype=torch.float64))


def minimum(point, loss, step=None):
    optimizer = torch.optim.SGD(point.parameters(), lr=0.02)
    for _ in range(2000):
        if step:
            step(optimizer, loss(point.w))
        else:
            optimizer.zero_grad()
            loss(point.w).backward()
            optimizer.step()
    return point.w.detach().clone()


def test_ewc_on_two_quadratic_losses_ends_at_the_closed_form():
    random = torch.Generator().manual_seed(0)
    (first, a), (second, b) = (
        ((root := torch.randn(3, 3, generator=random, dtype=torch.float64)) @ root.T + torch.eye(3), root[0])
        for _ in range(2)
    )
    strength, fisher = 3.0, first.diagonal()  # of a Gaussian likelihood, the information is the loss's curvature
    point = Point()
    after_first = minimum(point, lambda w: 0.5 * (w - a) @ first @ (w - a))
    torch.testing.assert_close(after_first, a)
    penalty = Quadratic({"w": torch.zeros_like(a)}, {"w": torch.zeros_like(a)})
    penalty.absorb({"w": fisher.clone()}, {"w": after_first})
    found = minimum(point, lambda w: 0.5 * (w - b) @ second @ (w - b), penalised(penalty, point, strength / 2))
    expected = torch.linalg.solve(second + strength * fisher.diag(), second @ b + strength * fisher * a)
    torch.testing.assert_close(found, expected)


def test_the_sum_of_penalties_is_the_literal_sum_over_tasks():
    """Gradient, and value but for a constant, with weights that no task, some tasks, or all tasks hold."""
    random = torch.Generator().manual_seed(0)
    networks = [Network("conv-small", (1, 8, 8), 10, random) for _ in range(2)]
    merged = Quadratic(no_importance(networks[0]), weights(networks[0]))
    values, gradients = [0.0, 0.0], [no_importance(network) for network in networks]
    for task in range(6):
        scale = random_weights(networks[0], random)
        scale = {name: w * (w > 0.1 * task) for name, w in scale.items()}
        anchor = {name: w - 0.5 for name, w in random_weights(networks[0], random).items()}
        for number, network in enumerate(networks):
            for name, weight in weights(network).items():
                offset = weight - anchor[name]
                values[number] += 3.5 * (scale[name].double() * offset.double().square()).sum().item()
                gradients[number][name] += 2 * 3.5 * scale[name] * offset
        merged.absorb(scale, anchor)
    found = []
    for network, gradient in zip(networks, gradients):
        for weight in network.parameters():
            weight.grad = torch.zeros_like(weight)
        found.append(merged.pull(network, 3.5))
        for name, weight in network.named_parameters():
            torch.testing.assert_close(weight.grad, gradient[name], rtol=1e-4, atol=1e-5)
    assert found[0] - found[1] == pytest.approx(values[0] - values[1], rel=1e-3)


def test_the_pull_is_the_gradient_of_the_value():
    random = torch.Generator().manual_seed(0)
    network = Network("conv-small", (1, 8, 8), 10, random)
    penalty = Quadratic(random_weights(network, random), random_weights(network, random))
    value = sum(
        (penalty.importance[name] * (weight - penalty.anchor[name]).square()).sum()
        for name, weight in network.named_parameters()
    )
    (2.0 * value).backward()
    expected = [weight.grad.clone() for weight in network.parameters()]
    network.zero_grad(set_to_none=False)
    assert penalty.pull(network, 2.0) == pytest.approx(2 * value.item(), rel=1e-5)
    for weight, gradient in zip(network.parameters(), expected):
        torch.testing.assert_close(weight.grad, gradient)


@pytest.mark.parametrize("name", NAMES)
def test_without_strength_it_is_fine_tuning_to_the_bit(name):
    regularised = taught(name, strength=0.0)
    # A class of the same name draws the same random numbers.
    plainly = {"_learn": lambda self, task, on_step: self.fit(task, self.optimizer, on_step)}
    plain = type(type(regularised).__name__, (type(regularised),), plainly)(regularised.config, regularised.context)
    for task in TASKS:
        plain.learn(task)
    for weight, other in zip(regularised.network.parameters(), plain.network.parameters()):
        assert torch.equal(weight, other)


@pytest.mark.parametrize("name", NAMES)
def test_with_a_huge_strength_weights_stay_put(name):
    """Weights of no importance are free in any regulariser; those that matter most stay."""
    held, free = taught(name, 1, strength=1e9), taught(name, 1, strength=0.0)
    importance = getattr(held, "importance", None)
    most = slice(None) if importance is None else (v := vector(importance)) >= v.quantile(0.9)
    distances = []
    for method in (held, free):
        before = vector(weights(method.network))
        method.learn(TASKS[1])
        distances.append((vector(weights(method.network)) - before)[most].norm().item())
    assert distances[0] < 0.2 * distances[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_penalty_is_above_zero_once_weights_have_moved(name):
    """The first task's reported losses are its own; those of the second hold the penalty too."""
    with_penalty, without = [], []
    for strength, losses in ((1e3, with_penalty), (0.0, without)):
        method = build(name, strength=strength, epochs=2)
        for task in TASKS[:2]:
            method.learn(task, lambda step, steps, loss, losses=losses: losses.append(loss))
    assert with_penalty[:3] == without[:3]  # the second task's first step stands at the anchor
    assert with_penalty[3] > without[3]


def test_l2_is_held_by_the_last_task_alone(monkeypatch):
    anchors = []
    original = Quadratic.pull
    monkeypatch.setattr(
        Quadratic, "pull", lambda self, *a: (anchors.append(vector(self.anchor)), original(self, *a))[1]
    )
    method = taught("l2", 2)
    after_second = vector(weights(method.network))
    anchors.clear()
    method.learn(TASKS[2])
    assert all(torch.equal(anchor, after_second) for anchor in anchors)
    assert len(anchors) == QUICK["epochs"]


def test_ewc_keeps_the_sum_of_all_tasks_terms(monkeypatch):
    """The gradient it is pulled by in a fourth task is that of the literal sum over the three before."""
    terms = []
    original = Quadratic.absorb

    def noted(self, *term):
        terms.append([{name: tensor.detach().clone() for name, tensor in one.items()} for one in term])
        original(self, *term)

    monkeypatch.setattr(Quadratic, "absorb", noted)
    method = taught("ewc")
    assert len(terms) == 3
    torch.testing.assert_close(vector(method.importance), sum(vector(scale) for scale, _ in terms))
    torch.testing.assert_close(vector(terms[-1][1]), vector(weights(method.network)))
    kept = Quadratic(*({n: w.clone() for n, w in one.items()} for one in (method.importance, method.anchor)))
    method.learn(TASKS[0])
    for weight in method.network.parameters():
        weight.grad = torch.zeros_like(weight)
    assert kept.pull(method.network, 1.0) > 0
    now = weights(method.network)
    expected = {n: sum(2 * scale[n] * (w - anchor[n]) for scale, anchor in terms[:3]) for n, w in now.items()}
    found = {n: w.grad for n, w in method.network.named_parameters()}
    torch.testing.assert_close(vector(found), vector(expected), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_online_ewc_adds_new_importances_to_decayed_old_ones(monkeypatch, gamma):
    found = []
    original = importance.fisher

    def noted(*arguments):
        result = original(*arguments)
        found.append(vector(result).clone())
        return result

    monkeypatch.setattr("protoreplay.methods.ewc.fisher", noted)
    method = taught("online-ewc", 2, gamma=gamma)
    first, second = found
    assert first.sum() > 0
    assert second.sum() > 0
    torch.testing.assert_close(vector(method.importance), gamma * first + second)


def test_mas_sums_the_importances_of_tasks():
    method, expected = build("mas"), 0.0
    for task in TASKS:
        method.learn(task)
        expected = expected + vector(importance.sensitivity(method.network, task.images, method.classes)) / len(
            method.classes
        )
    torch.testing.assert_close(vector(method.importance), expected)


def fall_of_the_loss(method, task):
    """Learn the task; returns by how much its cross-entropy, over all classes then seen, has fallen."""
    losses, seen = [], sorted({*method.classes, *task.classes})
    targets = torch.tensor([seen.index(label) for label in task.labels])
    for learned in (False, True):
        if learned:
            method.learn(task)
        with torch.no_grad():
            losses.append(nn.functional.cross_entropy(method.network(task.images)[:, seen], targets).item())
    return losses[0] - losses[1]


def test_si_shares_add_up_to_the_fall_of_the_loss():
    """Where weights hardly move, an importance is the weight's share over `xi`; small steps have no negative ones."""
    method = build("si", lr=1e-5, epochs=300, xi=1.0)
    fall = fall_of_the_loss(method, TASKS[0])
    assert fall > 0.05
    assert vector(method.importance).sum().item() == pytest.approx(fall, rel=0.02)


def test_si_shares_are_those_of_the_loss_without_the_penalty():
    """Under a strong penalty too, shares add up to the fall of the loss alone."""
    method = taught("si", 1, strength=1e9, lr=1e-5, epochs=300, xi=1.0)
    method.importance = {name: torch.full_like(weight, 1e-6) for name, weight in method.importance.items()}
    before = vector(method.importance).sum().item()
    fall = fall_of_the_loss(method, TASKS[1])
    assert fall > 0
    assert vector(method.importance).sum().item() - before == pytest.approx(fall, rel=0.05)


def test_si_importance_is_the_share_over_the_squared_motion():
    """The share does not depend on `xi`: two values of it give two equations for it."""
    shares, negative = [], []
    for xi in (0.02, 5.0):
        method = build("si", xi=xi)
        start = vector(weights(method.network))
        method.learn(TASKS[0])
        motion = vector(weights(method.network)) - start
        shares.append(vector(method.importance) * (motion**2 + xi))
        negative.append((vector(method.importance) < 0).any())
    torch.testing.assert_close(*shares)
    assert (shares[0] > 0).any()
    assert not any(negative)


def test_si_sums_the_importances_of_tasks():
    method = taught("si", 1, strength=0.0, clamp="task")
    first, method_after_one = vector(method.importance).clone(), taught("si", 1, strength=0.0, clamp="task")
    method.learn(TASKS[1])
    alone = build("si", strength=0.0, clamp="task")
    alone.restore(method_after_one.state())
    alone.importance = no_importance(alone.network)
    alone.learn(TASKS[1])
    torch.testing.assert_close(vector(method.importance), first + vector(alone.importance))


def test_the_optimiser_goes_on_from_task_to_task():
    method = taught("l2", 2)
    steps = {int(tensor) for name, tensor in method.state().items() if name.endswith(".step")}
    assert steps == {2 * QUICK["epochs"]}
    moments = sum(item.numbers for item in method.ledger() if item.name == "optimizer")
    numbers = sum(weight.numel() for weight in method.network.parameters())
    assert moments == 2 * numbers + len(list(method.network.parameters()))


@pytest.mark.parametrize(
    ("name", "items"),
    [("l2", 0), ("ewc", 2), ("online-ewc", 1), ("si", 1), ("mas", 1)],
)
def test_what_is_kept_does_not_grow_with_tasks(name, items):
    numbers = sum(weight.numel() for weight in build(name).network.parameters())
    for tasks in (1, 3):
        kept = {item.name: item.numbers for item in taught(name, tasks).ledger()}
        assert sum(kept.get(item, 0) for item in ("importance", "anchor")) == items * numbers
        assert kept["network"] == numbers
