import copy
import itertools

import pytest
import torch
from torch.nn import functional

from protoreplay.methods.base import MethodContext
from protoreplay.methods.distillation import soft_cross_entropy
from protoreplay.methods.icarl import ICaRL, ICaRLConfig, herd
from protoreplay.methods.replay_memory import ReplayMemory
from tests.conftest import toy_task

QUICK = {"encoder": "conv-small", "epochs": 3, "budget": 12}
TASKS = [toy_task(1, (3, 8), shots=8), toy_task(2, (5,), shots=8), toy_task(3, (0,), shots=8)]


def icarl(**settings):
    return ICaRL(ICaRLConfig(**{**QUICK, **settings}), MethodContext((1, 8, 8), 10))


def taught(tasks=3, **settings):
    method = icarl(**settings)
    for task in TASKS[:tasks]:
        method.learn(task)
    return method


def of_class(method, label):
    return method.exemplars.images[method.exemplars.classes == label]


def brute_force(features, count):
    """Of all rows not yet chosen, the one that brings the mean of the chosen nearest to the mean of all."""
    chosen = []
    for _ in range(min(count, len(features))):
        rest = [row for row in range(len(features)) if row not in chosen]
        distance = {row: (features[[*chosen, row]].mean(0) - features.mean(0)).norm().item() for row in rest}
        chosen.append(min(rest, key=distance.__getitem__))
    return chosen


@pytest.mark.parametrize(("rows", "count"), list(itertools.product([1, 7, 12], [0, 1, 4, 20])))
def test_herding_is_the_greedy_choice(rows, count):
    features = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    assert herd(features, count).tolist() == brute_force(features, count)


def test_exemplars_are_the_herded_images_of_each_class():
    method = taught(1)
    for label in (3, 8):
        images = TASKS[0].images[TASKS[0].labels == label]
        chosen = brute_force(method.unit_features(images).detach().double(), 6)
        assert torch.equal(of_class(method, label), images[chosen])


def test_the_budget_is_shared_evenly_and_the_last_chosen_are_dropped():
    before, after = taught(2), taught(3)
    assert [len(of_class(before, label)) for label in (3, 8, 5)] == [4, 4, 4]
    assert [len(of_class(after, label)) for label in (3, 8, 5, 0)] == [3, 3, 3, 3]
    for label in (3, 8, 5):
        assert torch.equal(of_class(after, label), of_class(before, label)[:3])
    assert sum(item.numbers for item in after.ledger() if item.name == "exemplars") == 12 * (64 + 2)


def test_each_class_of_each_task_has_exemplars_when_classes_come_back():
    method = icarl(budget=2, budget_per="class")
    for position in (1, 2, 3):
        method.learn(toy_task(position, (1, 6)))
    pairs = list(zip(method.exemplars.tasks.tolist(), method.exemplars.classes.tolist()))
    assert sorted(pairs) == sorted(2 * list(itertools.product((1, 2, 3), (1, 6))))


def test_a_budget_too_small_for_all_stays_empty_and_the_head_answers():
    method = icarl(budget=2)
    for task in TASKS:
        method.learn(task)
    method.learn(toy_task(4, (1,)))
    assert len(method.exemplars) == 0
    torch.testing.assert_close(
        method.predict_proba(TASKS[0].images), method.scores(TASKS[0].images).softmax(1).detach()
    )


def test_answers_are_the_nearest_mean_of_exemplars():
    method = taught()
    images = TASKS[1].images
    unit = lambda x: x / x.norm(dim=-1, keepdim=True)  # noqa: E731
    features = unit(method.network.trunk(images)).detach()
    means = [unit(unit(method.network.trunk(of_class(method, c))).mean(0)) for c in method.classes]
    nearest = torch.cdist(features, torch.stack(means).detach()).argmin(1)
    assert torch.equal(method.predict(images), torch.tensor(method.classes)[nearest])


def test_answers_change_with_the_exemplars_and_not_with_the_head():
    method = taught()
    before = method.predict_proba(TASKS[0].images)
    with torch.no_grad():
        method.network.head.weight.normal_(generator=torch.Generator())
    assert torch.equal(method.predict_proba(TASKS[0].images), before)
    kept = method.exemplars
    swapped = kept.classes.clone()
    swapped[kept.classes == 3], swapped[kept.classes == 8] = 8, 3
    method.exemplars = ReplayMemory(kept.images, kept.tasks, swapped)
    after = method.predict_proba(TASKS[0].images)
    torch.testing.assert_close(after, before[:, [0, 3, 2, 1]])


def test_exemplars_are_trained_on(monkeypatch):
    method, met = taught(2), []
    original = ICaRL.scores
    monkeypatch.setattr(ICaRL, "scores", lambda self, images: (met.extend(images), original(self, images))[1])
    kept = method.exemplars.images
    method.learn(TASKS[2])
    for image in [*kept, *TASKS[2].images]:
        assert sum(torch.equal(image, other) for other in met) == QUICK["epochs"]


@pytest.mark.parametrize("kind", ["bce", "kl", "mse"])
def test_the_loss_is_its_formula(kind):
    """Classes 3 and 8 are old: distilled. Class 5 is new: learned from the labels. Seen in the second step's loss."""
    two_steps, one_step = (icarl(distillation=kind, lr=0.01, epochs=epochs) for epochs in (2, 1))
    two_steps.learn(TASKS[0])
    one_step.restore(two_steps.state())
    teacher, kept, losses = copy.deepcopy(two_steps.network), two_steps.exemplars, []
    two_steps.learn(TASKS[1], lambda step, steps, loss: losses.append(loss))
    one_step.learn(TASKS[1])
    images, labels = torch.cat([TASKS[1].images, kept.images]), torch.cat([TASKS[1].labels, kept.classes])
    scores, before = one_step.network(images)[:, [3, 8, 5]], teacher(images)[:, [3, 8]]
    if kind == "bce":
        probabilities, wanted = scores.sigmoid(), torch.cat([before.sigmoid(), (labels == 5)[:, None].float()], 1)
        terms = wanted * probabilities.log() + (1 - wanted) * (1 - probabilities).log()
        expected = -terms.sum(1).mean()
    else:
        targets = torch.tensor([[3, 8, 5].index(label) for label in labels])
        expected = functional.cross_entropy(scores, targets)
        if kind == "kl":
            p, q = (before / 2).softmax(1), (scores[:, :2] / 2).softmax(1)
            distilled = 4 * (p * (p / q).log()).sum(1).mean()
        else:
            distilled = (scores[:, :2] - before).square().mean()
        assert distilled > 1e-3
        expected = expected + distilled
    assert losses[1] == pytest.approx(expected.item(), rel=1e-4)


def test_distillation_is_least_at_the_teachers_scores():
    teacher = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert soft_cross_entropy(teacher, teacher, 2.0).item() == pytest.approx(0, abs=1e-6)
    assert soft_cross_entropy(teacher.flip(1), teacher, 2.0) > 0.1
