"""With published settings, regularisers train on the formulas of their sources, written out here in plain loops."""

import copy
import itertools

import pytest
import torch
from torch.nn import functional

from protoreplay.methods.base import MethodContext
from protoreplay.methods.registry import METHODS, configure
from protoreplay.streams.protocols import get_protocol
from protoreplay.streams.stream import Task


def noise(position, classes):
    """A task that cannot be learned: guesses are often wrong, and steps often go uphill for some weights."""
    images = torch.randint(0, 256, (24, 1, 8, 8), generator=torch.Generator().manual_seed(position), dtype=torch.uint8)
    return Task(position, classes, images, torch.tensor([classes[i % len(classes)] for i in range(24)]))


TASKS = [noise(1, (0, 1)), noise(2, (0, 2)), noise(3, (3, 4))]
SEEN = [[0, 1], [0, 1, 2], [0, 1, 2, 3, 4]]


class Watched:
    """A method that has learned two tasks and is in its third: at all its steps, the weights it started from, the loss
    that it told and the gradient that it followed."""

    def __init__(self, name, **settings):
        config = configure(name, get_protocol("split-cifar10"), {"encoder": "conv-small", "epochs": 6, **settings})
        method = METHODS.get(name).build(config, MethodContext((1, 8, 8), 10))
        self.network = copy.deepcopy(method.network)
        self.names = [name for name, _ in self.network.named_parameters()]
        self.paths, self.losses, self.gradients = [], [], []
        for task in TASKS:
            self.paths.append([self.weights(method.network)])
            self.losses.append([])
            self.gradients.append([])

            def watch(step, steps, loss):
                self.paths[-1].append(self.weights(method.network))
                self.losses[-1].append(loss)
                self.gradients[-1].append([weight.grad.clone() for weight in method.network.parameters()])

            method.learn(task, watch)

    @staticmethod
    def weights(network):
        return [weight.detach().clone() for weight in network.parameters()]

    def scores(self, weights, images, task):
        named = dict(zip(self.names, weights))
        return torch.func.functional_call(self.network, named, (images,))[:, SEEN[task]]

    def cross_entropy(self, weights, task):
        targets = torch.tensor([SEEN[task].index(label) for label in TASKS[task].labels])
        return functional.cross_entropy(self.scores(weights, TASKS[task].images, task), targets)

    def gradient(self, function, weights):
        leaves = [weight.clone().requires_grad_() for weight in weights]
        return list(torch.autograd.grad(function(leaves), leaves))

    def check(self, penalty):
        """Of all steps of the third task: the penalty's gradient, and its change since the first step."""
        told, expected = [], []
        for start, loss, gradient in zip(self.paths[2], self.losses[2], self.gradients[2]):
            plain = self.gradient(lambda weights: self.cross_entropy(weights, 2), start)
            wanted = self.gradient(penalty, start)
            off = [found - own - pull for found, own, pull in zip(gradient, plain, wanted)]
            assert norm(off) < 1e-3 * norm(wanted) + 1e-6 * norm(plain)
            told.append(loss - self.cross_entropy(start, 2).item())
            expected.append(penalty(start).item())
        assert norm(wanted) > 1e-4 * norm(plain), "the penalty is too weak to be seen"
        # A change, because EWC tells its penalty without a constant.
        assert told[-1] - told[0] == pytest.approx(expected[-1] - expected[0], rel=1e-2)


def norm(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors]).norm().item()


def distance(importance, weights, anchor):
    total = 0.0
    for one, weight, old in zip(importance, weights, anchor):
        total = total + (one * (weight - old) ** 2).sum()
    return total


def fisher(watched, task):
    """The mean over images of the squared gradient of the log-probability of the most probable class."""
    weights = watched.paths[task][-1]
    total = [torch.zeros_like(weight) for weight in weights]
    for image in TASKS[task].images:
        guess = watched.scores(weights, image[None], task).argmax()
        found = watched.gradient(
            lambda w, i=image, g=guess: watched.scores(w, i[None], task).log_softmax(1)[0, g], weights
        )
        total = [old + new**2 / len(TASKS[task].images) for old, new in zip(total, found)]
    return total


def test_l2():
    watched = Watched("l2")
    anchor = watched.paths[1][-1]
    watched.check(lambda weights: 100 * distance([1.0] * len(weights), weights, anchor))


def test_ewc_has_a_term_for_every_task():
    watched = Watched("ewc")
    terms = [(fisher(watched, task), watched.paths[task][-1]) for task in (0, 1)]
    watched.check(lambda weights: 600 * sum(distance(scale, weights, anchor) for scale, anchor in terms))


def test_ewc_with_the_half_of_its_paper():
    watched = Watched("ewc", half=True)
    terms = [(fisher(watched, task), watched.paths[task][-1]) for task in (0, 1)]
    watched.check(lambda weights: 600 / 2 * sum(distance(scale, weights, anchor) for scale, anchor in terms))


def test_online_ewc_has_one_term_of_summed_information():
    watched = Watched("online-ewc")
    importance = [sum(both) for both in zip(fisher(watched, 0), fisher(watched, 1))]
    watched.check(lambda weights: 100 * distance(importance, weights, watched.paths[1][-1]))


@pytest.mark.parametrize("clamp", ["sum", "task"])
def test_si(clamp):
    """`sum` is the published setting: a negative share of the second task lowers what the first one gave."""
    watched = Watched("si", **({} if clamp == "sum" else {"clamp": clamp}))
    importance = [torch.zeros_like(weight) for weight in watched.paths[0][0]]
    negative = False
    for task in (0, 1):
        path = watched.paths[task]
        share = [torch.zeros_like(weight) for weight in path[0]]
        for before, after in itertools.pairwise(path):
            slope = watched.gradient(lambda weights, task=task: watched.cross_entropy(weights, task), before)
            share = [old - g * (b - a) for old, g, b, a in zip(share, slope, after, before)]
        for i, (one, first, last) in enumerate(zip(share, path[0], path[-1])):
            new = one / ((last - first) ** 2 + 0.1)
            negative |= task == 1 and bool((new < -1e-6).any())
            summed = importance[i] + new
            importance[i] = (summed if clamp == "sum" else importance[i] + new.clamp(min=0)).clamp(min=0)
    assert negative
    watched.check(lambda weights: 600 * distance(importance, weights, watched.paths[1][-1]))


@pytest.mark.parametrize("outputs", ["mean", "sum"])
def test_mas(outputs):
    """`mean` is the published setting."""
    watched = Watched("mas", **({} if outputs == "mean" else {"outputs": outputs}))
    importance = [torch.zeros_like(weight) for weight in watched.paths[0][0]]
    for task in (0, 1):
        for image in TASKS[task].images:

            def squared(weights, task=task, image=image):
                scores = watched.scores(weights, image[None], task)
                return (scores**2).mean() if outputs == "mean" else (scores**2).sum()

            found = watched.gradient(squared, watched.paths[task][-1])
            importance = [old + new.abs() / len(TASKS[task].images) for old, new in zip(importance, found)]
    watched.check(lambda weights: 1 * distance(importance, weights, watched.paths[1][-1]))


@pytest.mark.parametrize("scaled", [False, True])
def test_lwf(scaled):
    """Cross-entropy with the old network's softened probabilities, times T^2 only where that is asked for."""
    watched = Watched("lwf", **({"scale_by_temperature": True} if scaled else {}))
    with torch.no_grad():
        before = watched.scores(watched.paths[1][-1], TASKS[2].images, 1)

    def distillation(weights):
        now = watched.scores(weights, TASKS[2].images, 2)[:, :3]
        total = 0.0
        for ours, theirs in zip(now, before):
            p, q = (theirs / 2).softmax(0), (ours / 2).softmax(0)
            total = total - (p * q.log()).sum() / len(before)
        return 1.0 * total * (4 if scaled else 1)

    watched.check(distillation)
