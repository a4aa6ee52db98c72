from pathlib import Path

import pytest
import torch

from protoreplay.encoders.registry import ENCODERS
from protoreplay.methods import fused_replay
from protoreplay.methods.base import MethodContext
from protoreplay.methods.vpr_paper import VPRPaper, VPRPaperConfig
from protoreplay.prototypes.gaussians import Gaussian
from tests.conftest import toy_task

QUICK = {"encoder": "conv-small", "epochs": 2, "dim": 5, "samples": 3, "budget": 8, "tau": 1.0}


def vpr(**settings):
    return VPRPaper(VPRPaperConfig(**{**QUICK, **settings}), MethodContext((1, 8, 8), 10))


def taught(tasks=3, **settings):
    method = vpr(**settings)
    for task in [toy_task(1, (0, 1)), toy_task(2, (2,)), toy_task(3, (3,)), toy_task(4, (4,))][:tasks]:
        method.learn(task)
    return method


def replayed(monkeypatch, **settings):
    """The sizes of the stored prototype sets met while task 4 is learned, in order."""
    method = taught(**settings)
    met = []
    original = VPRPaper._replay_loss

    def spy(self, past, random):
        met.append(len(past.prototypes.mean))
        return original(self, past, random)

    monkeypatch.setattr(VPRPaper, "_replay_loss", spy)
    method.learn(toy_task(4, (4,)))
    return met


def count_steps(monkeypatch, method, task):
    steps = []
    original = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self, *a: (steps.append(1), original(self, *a))[1])
    method.learn(task)
    return len(steps)


@pytest.mark.parametrize(("order", "expected"), [("forward", [2, 3, 4]), ("backward", [4, 3, 2]), ("latest-only", [4])])
def test_replay_order_is_the_order_of_stored_sets(monkeypatch, order, expected):
    assert replayed(monkeypatch, replay_order=order) == expected * QUICK["epochs"]


def test_each_past_task_is_a_step_of_its_own_unless_fused(monkeypatch):
    new_steps = QUICK["epochs"]
    assert count_steps(monkeypatch, taught(), toy_task(4, (4,))) == new_steps + 3 * new_steps
    monkeypatch.undo()
    assert count_steps(monkeypatch, taught(fused=True), toy_task(4, (4,))) == new_steps + new_steps


def test_replay_every_kth_step(monkeypatch):
    assert count_steps(monkeypatch, taught(epochs=6, replay_every=3), toy_task(4, (4,))) == 6 + 2 * 3


@pytest.mark.parametrize("expectation", ["sampled", "closed-form"])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("logvar", [-200.0, 200.0])
def test_variances_without_end_leave_everything_finite(expectation, fused, logvar):
    """As after a dozen tasks of permuted MNIST: the loss falls with the variances, and nothing else holds them."""
    method = taught(expectation=expectation, fused=fused, optimizer="adam")
    with torch.no_grad():
        method.network.head.bias[QUICK["dim"] :] = logvar
    losses = []
    for task in (toy_task(4, (4,)), toy_task(5, (5,))):
        method.learn(task, lambda step, steps, loss: losses.append(loss))
    assert torch.tensor(losses).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.state().values())
    assert method.predict_proba(toy_task(5, (5,)).images).isfinite().all()


def test_first_task_replays_nothing(monkeypatch):
    assert count_steps(monkeypatch, vpr(), toy_task(1, (0, 1))) == QUICK["epochs"]


def gradient_of(method):
    return torch.cat([p.grad.flatten() for p in method.network.parameters()])


def single_gradients(method, random):
    """Of every past task's replay loss, T x weights."""
    found = []
    for past in method._past_tasks():
        method.network.zero_grad()
        method._replay_loss(past, random).backward()
        found.append(gradient_of(method))
    return torch.stack(found)


def fused_loss(method, random=None):
    """The loss of a fused step; its gradient is left in the weights."""
    fused = method._fused_replay(method._past_tasks())
    method.network.zero_grad()
    return fused.backward(method.network(fused.images), random or torch.Generator())


@pytest.mark.parametrize("group", [1, 100, 2**18])
@pytest.mark.parametrize("recall", ["both", "mean", "variance"])
def test_fused_gradient_is_the_mean_of_the_single_ones(monkeypatch, group, recall):
    """However many past tasks are computed at once: one, two of the four, or all."""
    monkeypatch.setattr(fused_replay, "DISTANCES_AT_ONCE", group)
    method = taught(4, expectation="closed-form", recall=recall, distance="squared", budget=10)
    single = single_gradients(method, torch.Generator())
    assert len(single) == 4
    groups = method._fused_replay(method._past_tasks()).groups
    assert len(groups) == {1: 4, 100: 2, 2**18: 1}[group]
    fused_loss(method)
    torch.testing.assert_close(gradient_of(method), single.mean(0), rtol=1e-4, atol=1e-6)


def test_replay_loss_is_the_cross_entropy_of_known_images_among_each_set():
    """By the definition, one image and one stored set at a time; an image is met only where its class was known."""
    method = taught(4, expectation="closed-form", fused=True, budget=10)
    held, loss = method.memory, fused_loss(method)
    with torch.no_grad():
        encoded = Gaussian(*method.network.gaussian(held.images))
        expected = []
        for bank in method.prototypes:
            stored, losses = bank.gaussian, []
            for image, label in enumerate(held.classes):
                if label in bank.classes:
                    squared = (encoded.mean[image] - stored.mean).square() + encoded.logvar[image].exp()
                    distance = ((squared + stored.logvar.exp()) / stored.logvar.exp()).sum(1).sqrt()
                    losses.append(-(-distance).log_softmax(0)[bank.classes == label])
            expected.append(torch.cat(losses).mean())
        assert [len(bank) for bank in method.prototypes] == [2, 3, 4, 5]
    torch.testing.assert_close(loss, torch.stack(expected).mean(), rtol=1e-4, atol=1e-5)


def test_sampled_replay_tends_to_the_same_loss_fused_or_not():
    """Sharing noise between past tasks changes no task's own loss: means over many samples agree."""
    method = taught(4, samples=20_000, epochs=0, budget=10)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        single = torch.stack([method._replay_loss(past, random) for past in method._past_tasks()]).mean()
    method.config = method.config.model_copy(update={"fused": True})
    torch.testing.assert_close(fused_loss(method, random), single, rtol=0.01, atol=0)


def recall_gradients(recall, **settings):
    """Gradients of the replay loss with respect to what the head adds to means and to log-variances."""
    method = taught(recall=recall, **settings)
    method.network.zero_grad()
    method._replay_loss(method._past_tasks()[0], torch.Generator().manual_seed(0)).backward()
    return method.network.head.bias.grad.chunk(2)


@pytest.mark.parametrize("expectation", ["sampled", "closed-form"])
def test_recall_of_the_mean_only_leaves_logvar_without_gradient(expectation):
    mean, logvar = recall_gradients("mean", expectation=expectation)
    assert (logvar == 0).all()
    assert mean.abs().sum() > 0


def test_recall_of_the_variance_only_leaves_the_mean_without_gradient():
    mean, logvar = recall_gradients("variance")
    assert (mean == 0).all()
    assert logvar.abs().sum() > 0


@pytest.mark.parametrize("expectation", ["sampled", "closed-form"])
def test_recall_of_both_reaches_both(expectation):
    mean, logvar = recall_gradients("both", expectation=expectation)
    assert mean.abs().sum() > 0
    assert logvar.abs().sum() > 0


@pytest.mark.parametrize("fused", [True, False])
def test_without_variance_neither_learning_nor_answers_depend_on_it(fused):
    def answers(logvar):
        method = vpr(expectation="means", weighted=False, fused=fused)
        with torch.no_grad():
            method.network.head.bias[QUICK["dim"] :] = logvar
        for task in (toy_task(1, (0, 1)), toy_task(2, (2,)), toy_task(3, (3,))):
            method.learn(task)
        return method.predict_proba(toy_task(3, (3,)).images)

    assert torch.equal(answers(-3.0), answers(3.0))


def test_stored_prototypes_are_constants_in_training():
    method = taught()
    before = [(b.gaussian.mean.clone(), b.gaussian.logvar.clone()) for b in method.prototypes]
    assert not any(b.gaussian.mean.requires_grad or b.gaussian.logvar.requires_grad for b in method.prototypes)
    method.learn(toy_task(4, (4,)))
    for (mean, logvar), bank in zip(before, method.prototypes):
        assert torch.equal(mean, bank.gaussian.mean)
        assert torch.equal(logvar, bank.gaussian.logvar)


def manual_replay_loss(config, past, encoded, seed):
    """The replay loss of the definition: loops over samples, images and classes."""
    random, stored = torch.Generator().manual_seed(seed), past.prototypes
    x_noise = torch.randn(config.samples, len(encoded.mean), config.dim, generator=random)
    y_noise = torch.randn(config.samples, len(stored.mean), config.dim, generator=random)
    total = 0.0
    for z in range(config.samples):
        for n, target in enumerate(past.targets):
            x = encoded.mean[n] + torch.exp(0.5 * encoded.logvar[n]) * x_noise[z, n]
            scores = []
            for k in range(len(stored.mean)):
                difference = x - (stored.mean[k] + torch.exp(0.5 * stored.logvar[k]) * y_noise[z, k])
                if config.weighted:
                    difference = torch.exp(-0.5 * stored.logvar[k]) * difference
                distance = difference.norm() if config.distance == "norm" else difference.square().sum()
                scores.append(-distance / config.tau)
            total = total - torch.stack(scores).log_softmax(0)[target]
    return total / (config.samples * len(past.images))


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("distance", ["norm", "squared"])
@pytest.mark.parametrize("tau", [1.0, 2.5])
def test_replay_loss_is_the_formula_of_the_paper(weighted, distance, tau):
    method = taught(weighted=weighted, distance=distance, tau=tau)
    past = method._past_tasks()[1]
    assert len(past.images) < len(method.memory)
    with torch.no_grad():
        loss = method._replay_loss(past, torch.Generator().manual_seed(5))
        expected = manual_replay_loss(method.config, past, Gaussian(*method.network.gaussian(past.images)), 5)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighted", [True, False])
def test_gradient_of_the_sampled_loss_matches_a_finite_difference_with_frozen_noise(weighted):
    """Along what the head adds to means, and to log-variances, of all images alike."""
    method = taught(weighted=weighted)
    past, bias = method._past_tasks()[1], method.network.head.bias

    def loss():
        return method._replay_loss(past, torch.Generator().manual_seed(3))

    (gradient,) = torch.autograd.grad(loss(), bias)
    direction = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for half in (slice(None, QUICK["dim"]), slice(QUICK["dim"], None)):
            step = torch.zeros_like(bias)
            step[half] = torch.randn(step[half].shape, generator=direction)
            bias += 1e-2 * step
            above = loss()
            bias -= 2e-2 * step
            numeric = (above - loss()) / 2e-2
            bias += 1e-2 * step
            torch.testing.assert_close((gradient * step).sum(), numeric, rtol=2e-2, atol=1e-4)


def test_new_images_meet_new_and_old_prototypes():
    """The candidates are the prototypes of the support images and those stored after the task before."""
    method = taught(expectation="closed-form", distance="squared")
    task = toy_task(4, (4, 5), shots=6)
    groups = torch.searchsorted(torch.tensor(task.classes), task.labels)
    support, query = torch.arange(0, 6), torch.arange(6, 12)
    with torch.no_grad():
        loss = method._new_image_loss(task.images, groups, support, query, torch.Generator())
        mean, logvar = method.network.gaussian(task.images)
        old = method.prototypes[-1].gaussian
        means, logvars = list(old.mean), list(old.logvar)
        for group in reversed(range(2)):
            members = support[groups[support] == group]
            means.insert(0, mean[members].mean(0))
            logvars.insert(0, logvar[members].mean(0))
        expected = 0.0
        for q in query:
            distances = [
                (mean[q] - m).square().sum() + logvar[q].exp().sum() + v.exp().sum() for m, v in zip(means, logvars)
            ]
            expected -= (-torch.stack(distances)).log_softmax(0)[groups[q]]
    torch.testing.assert_close(loss, expected / len(query), rtol=1e-4, atol=1e-5)


def test_old_prototypes_come_from_the_memory_or_stay():
    """Re-embedded from the images held during the task; kept as they were."""
    for choice in ("re-embedded", "kept"):
        method = taught(old_prototypes=choice)
        held, before = method.memory, method.prototypes[-1]
        method.learn(toy_task(4, (4,)))
        after = method.prototypes[-1]
        assert torch.equal(after.classes[:4], before.classes)
        with torch.no_grad():
            mean, _ = method.network.gaussian(held.images)
        for row, label in enumerate(before.classes):
            fresh = mean[held.classes == label].mean(0)
            expected = fresh if choice == "re-embedded" else before.gaussian.mean[row]
            torch.testing.assert_close(after.gaussian.mean[row], expected, rtol=1e-5, atol=1e-6)


def test_without_images_old_prototypes_stay_and_nothing_is_replayed(monkeypatch):
    method = taught(budget=0)
    before = method.prototypes[-1].gaussian.mean
    assert count_steps(monkeypatch, method, toy_task(4, (4,))) == QUICK["epochs"]
    assert torch.equal(method.prototypes[-1].gaussian.mean[:4], before)


@pytest.mark.parametrize(("per", "expected"), [("run", [4, 2, 2, 1]), ("class", [4, 4, 4, 4])])
def test_memory_after_each_task(per, expected):
    method = vpr(budget=8, budget_per=per)
    classes = [(0, 1), (2,), (3,), (4,)]
    for position, each in enumerate(expected, start=1):
        method.learn(toy_task(position, classes[position - 1]))
        known = [label for group in classes[:position] for label in group]
        assert method.memory.classes.bincount(minlength=len(known)).tolist() == [each] * len(known)


def test_one_set_of_prototypes_is_stored_after_every_task():
    method = taught(tasks=4)
    assert [len(bank) for bank in method.prototypes] == [2, 3, 4, 5]
    ledger = {item.name: item for item in method.ledger()}
    dim = QUICK["dim"]
    assert ledger["prototypes"].numbers == (2 + 3 + 4 + 5) * (2 * dim + 2)


def test_returning_classes_get_prototypes_of_their_own():
    method = vpr(budget=1, budget_per="class")
    for position in (1, 2, 3):
        method.learn(toy_task(position, (0, 1)))
    assert method.prototypes[-1].tasks.tolist() == [1, 1, 2, 2, 3, 3]
    assert method.prototypes[-1].classes.tolist() == [0, 1] * 3
    assert len(method.memory) == 6


def test_number_of_samples_and_prediction_by_means():
    images = toy_task(9, (0, 1, 2, 3), shots=20).images
    exact = taught(prediction="means").predict_proba(images)
    few, many = (taught(samples=samples, epochs=0) for samples in (1, 400))
    assert not torch.allclose(few.predict_proba(images), many.predict_proba(images), atol=1e-3)
    means = taught(prediction="means", epochs=0)
    bank = means.prototypes[-1].gaussian.mean
    with torch.no_grad():
        distance = torch.cdist(means.network.gaussian(images)[0], bank)
    torch.testing.assert_close(means.predict_proba(images), (-distance).softmax(1), rtol=1e-4, atol=1e-5)
    assert exact.shape == (80, 4)


def test_latent_dimension_is_that_of_prototypes_and_the_network_never_grows():
    method = vpr(dim=7)
    size = sum(p.numel() for p in method.network.parameters())
    for position, classes in enumerate([(0, 1), (2,)], start=1):
        method.learn(toy_task(position, classes))
    assert method.prototypes[-1].gaussian.mean.shape == (3, 7)
    assert sum(p.numel() for p in method.network.parameters()) == size


class SmallResNet(torch.nn.Module):
    """A residual block with batch norm and stride 2, for 8 x 8 images."""

    def __init__(self, shape):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Conv2d(shape[0], 8, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(8))
        self.second = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8))
        self.narrow = torch.nn.Conv2d(8, 8, 4, 2)
        self.last = torch.nn.BatchNorm1d(8)

    def forward(self, images):
        x = self.first(images.float() / 255).relu()
        return self.last(self.narrow((x + self.second(x)).relu()).flatten(1))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("budget", [8, 1])
def test_a_residual_network_with_batch_norm_is_trained(monkeypatch, fused, budget):
    """Also where a past task replays a single image, which is no batch to normalise by."""
    monkeypatch.setattr(ENCODERS, "_session", {})
    ENCODERS.register("small-resnet", SmallResNet)
    method = vpr(encoder="small-resnet", fused=fused, budget=budget, budget_per="run")
    fresh = {name: tensor.clone() for name, tensor in method.network.state_dict().items()}
    losses = []
    for position, classes in enumerate([(0,), (1,), (2, 3)], start=1):
        method.learn(toy_task(position, classes), lambda step, steps, loss: losses.append(loss))
        assert not method.network.training
    assert torch.tensor(losses).isfinite().all()
    assert all(tensor.isfinite().all() for tensor in method.state().values())
    assert not any(torch.equal(fresh[name], tensor) for name, tensor in method.network.state_dict().items())
    images = toy_task(9, (0, 1, 2, 3)).images
    answers = method.predict_proba(images)
    assert answers.isfinite().all()
    # An answer does not depend on the images beside it.
    torch.testing.assert_close(method.predict_proba(images[:3]), answers[:3], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("encoder", ["conv-small", f"{Path(__file__).with_name('small_resnet.py')}:SmallResNet"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_frozen_trunk_is_the_one_of_the_first_task_and_its_head_is_trained_on(encoder, fused):
    """Also what batch normalisation has seen stays as it was."""
    choice = {"encoder": encoder, "trunk": "frozen", "fused": fused}
    first, later = taught(1, **choice).network, taught(3, **choice).network
    usual = taught(1, encoder=encoder, fused=fused).network
    for name, weight in first.trunk.state_dict().items():
        assert torch.equal(weight, later.trunk.state_dict()[name])
        assert torch.equal(weight, usual.trunk.state_dict()[name])  # the first task is the paper's
    assert not torch.equal(first.head.weight, later.head.weight)
    assert all(weight.requires_grad for weight in later.parameters())


def test_runs_of_before_there_was_a_choice_of_trunk_are_the_same_runs():
    assert "trunk" not in VPRPaperConfig().model_dump()
    assert VPRPaperConfig(trunk="frozen").model_dump()["trunk"] == "frozen"
