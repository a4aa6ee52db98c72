"""`vpr-paper` against Algorithm 1 of the paper, written out with loops over images, samples and classes."""

import copy
import itertools
import math

import pytest
import torch

from protoreplay.core.rng import generator
from protoreplay.encoders.trunks import CentredPixels
from protoreplay.methods.base import MethodContext
from protoreplay.methods.vpr_paper import VPRPaper, VPRPaperConfig
from tests.conftest import toy_task

Z, DIM, EPOCHS, BUDGET, TAU, SEED = 3, 4, 3, 12, 1.5, 7
TASKS = ((0, 1), (2,), (3,), (4,))


class SGD:
    def __init__(self, weights, lr):
        self.weights, self.lr = list(weights), lr

    def step(self, loss):
        for weight, gradient in zip(self.weights, torch.autograd.grad(loss, self.weights), strict=True):
            weight.data = weight.data - self.lr * gradient


class Adam(SGD):
    def __init__(self, weights, lr):
        super().__init__(weights, lr)
        self.first = [torch.zeros_like(weight) for weight in self.weights]
        self.second = [torch.zeros_like(weight) for weight in self.weights]
        self.steps = 0

    def step(self, loss):
        self.steps += 1
        for place, gradient in enumerate(torch.autograd.grad(loss, self.weights)):
            self.first[place] = 0.9 * self.first[place] + 0.1 * gradient
            self.second[place] = 0.999 * self.second[place] + 0.001 * gradient**2
            mean = self.first[place] / (1 - 0.9**self.steps)
            variance = self.second[place] / (1 - 0.999**self.steps)
            self.weights[place].data = self.weights[place].data - self.lr * mean / (variance.sqrt() + 1e-8)


class Algorithm1:
    """A set of prototypes is a dictionary from class to (mean, log-variance); the memory, pairs of image and class."""

    def __init__(self, network, optimizer, lr):
        self.network, self.optimizer, self.lr = network, optimizer, lr
        self.sets, self.memory = [], []

    def learn(self, task):
        random = generator(SEED, "VPRPaper", "learn", task.position)
        self.network.train()
        optimizer = self.optimizer(self.network.parameters(), self.lr)
        for _ in range(EPOCHS):
            self.train_on_new_images(task, optimizer, random)
            for stored in self.sets:
                self.train_on_old_images(stored, optimizer, random)
        self.network.eval()
        self.store(task)

    def train_on_new_images(self, task, optimizer, random):
        support, query = [], []
        dealt = torch.randperm(len(task.labels), generator=random).tolist()
        for label in task.classes:
            own = [place for place in dealt if task.labels[place] == label]
            support += own[: len(own) // 2]
            query += own[len(own) // 2 :]
        means, logvars = self.network.gaussian(task.images[support + query])
        prototypes = {}
        for label in task.classes:
            rows = [row for row, place in enumerate(support) if task.labels[place] == label]
            prototypes[label] = (sum(means[row] for row in rows) / len(rows), sum(logvars[r] for r in rows) / len(rows))
        old = self.sets[-1] if self.sets else {}
        image_noise = torch.randn(Z, len(query), DIM, generator=random)
        new_noise = torch.randn(Z, len(prototypes), DIM, generator=random)
        old_noise = torch.randn(Z, len(old), DIM, generator=random) if old else torch.zeros(Z, 0, DIM)
        noise = torch.cat([new_noise, old_noise], 1)
        losses = []
        for number, place in enumerate(query):
            row = len(support) + number
            for z in range(Z):
                sample = drawn(means[row], logvars[row], image_noise[z, number])
                distances = {
                    label: norm(sample - drawn(*prototype, noise[z, k]))
                    for k, (label, prototype) in enumerate((prototypes | old).items())
                }
                losses.append(cross_entropy(distances, int(task.labels[place])))
        optimizer.step(sum(losses) / len(losses))

    def train_on_old_images(self, stored, optimizer, random):
        images = [(image, label) for image, label in self.memory if label in stored]
        if not images:
            return
        means, logvars = self.network.gaussian(torch.stack([image for image, _ in images]))
        image_noise = torch.randn(Z, len(images), DIM, generator=random)
        noise = torch.randn(Z, len(stored), DIM, generator=random)
        losses = []
        for row, (_, own) in enumerate(images):
            for z in range(Z):
                sample = drawn(means[row], logvars[row], image_noise[z, row])
                distances = {
                    label: norm(torch.exp(-0.5 * logvar) * (sample - drawn(mean, logvar, noise[z, k])))
                    for k, (label, (mean, logvar)) in enumerate(stored.items())
                }
                losses.append(cross_entropy(distances, own))
        optimizer.step(sum(losses) / len(losses))

    @torch.no_grad()
    def store(self, task):
        old = self.sets[-1] if self.sets else {}
        found = {label: self.prototype([image for image, own in self.memory if own == label]) for label in old}
        for label in task.classes:
            found[label] = self.prototype(
                [image for image, own in zip(task.images, task.labels, strict=True) if own == label]
            )
        self.sets.append(found)
        order = torch.randperm(
            len(task.labels), generator=generator(SEED, "VPRPaper", "memory", task.position)
        ).tolist()
        kept, everything = [], self.memory + [(task.images[place], int(task.labels[place])) for place in order]
        for image, label in everything:
            if sum(own == label for _, own in kept) < BUDGET // len(found):
                kept.append((image, label))
        self.memory = kept

    def prototype(self, images):
        means, logvars = self.network.gaussian(torch.stack(list(images)))
        return sum(means) / len(means), sum(logvars) / len(logvars)

    @torch.no_grad()
    def predict(self, images):
        random, stored = generator(SEED, "VPRPaper", "predict"), self.sets[-1]
        noise = torch.randn(Z, len(stored), DIM, generator=random)
        image_noise = torch.randn(Z, 1, DIM, generator=random)[:, 0]
        answers = []
        for mean, logvar in zip(*self.network.gaussian(images), strict=True):
            chances = dict.fromkeys(stored, 0.0)
            for z in range(Z):
                sample = drawn(mean, logvar, image_noise[z])
                weights = {
                    label: math.exp(-norm(sample - drawn(*prototype, noise[z, k])))
                    for k, (label, prototype) in enumerate(stored.items())
                }
                for label, weight in weights.items():
                    chances[label] += weight / sum(weights.values())
            answers.append(max(chances, key=chances.__getitem__))
        return answers


@pytest.fixture
def doubles(monkeypatch):
    """Adam moves every weight by its learning rate: what 32 bits round off a gradient of 0 would be all of its sign."""
    monkeypatch.setattr(CentredPixels, "forward", lambda self, images: images.double() / 127.5 - 1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def drawn(mean, logvar, noise):
    return mean + torch.exp(0.5 * logvar) * noise


def norm(vector):
    return (vector**2).sum().sqrt() / TAU


def cross_entropy(distances, own):
    return distances[own] + torch.log(sum(torch.exp(-distance) for distance in distances.values()))


def determined(network):
    """The weights that the loss determines: batch normalisation takes off whatever bias a layer before it adds."""
    layers = [*network.trunk, network.head]
    undetermined = {
        id(layer.bias)
        for layer, following in itertools.pairwise(layers)
        if isinstance(following, torch.nn.modules.batchnorm._BatchNorm)
    }
    return {name: weight for name, weight in network.named_parameters() if id(weight) not in undetermined}


@pytest.mark.parametrize("encoder", ["lenet", "lenet-bn"])
@pytest.mark.parametrize(("name", "optimizer", "lr"), [("sgd", SGD, 0.02), ("adam", Adam, 1e-3)])
@pytest.mark.usefixtures("doubles")
def test_four_tasks_leave_what_the_loops_of_algorithm_1_leave(name, optimizer, lr, encoder):
    settings = {"encoder": encoder, "dim": DIM, "samples": Z, "epochs": EPOCHS, "budget": BUDGET, "tau": TAU}
    config = VPRPaperConfig(**settings, optimizer=name, lr=lr)
    ours = VPRPaper(config, MethodContext((1, 8, 8), 10, SEED))
    literal = Algorithm1(copy.deepcopy(ours.network), optimizer, lr)
    for position, classes in enumerate(TASKS, start=1):
        task = toy_task(position, classes, shots=6)
        ours.learn(task)
        literal.learn(task)
    for stored, bank in zip(literal.sets, ours.prototypes, strict=True):
        assert list(stored) == bank.classes.tolist()
        for (mean, logvar), *row in zip(stored.values(), *bank.gaussian, strict=True):
            torch.testing.assert_close(torch.stack([mean, logvar]), torch.stack(row), atol=1e-6, rtol=1e-6)
    assert ours.memory.classes.tolist() == [label for _, label in literal.memory]
    assert torch.equal(ours.memory.images, torch.stack([image for image, _ in literal.memory]))
    images = torch.cat([toy_task(position, classes, seed=1).images for position, classes in enumerate(TASKS, 1)])
    assert ours.predict(images).tolist() == literal.predict(images)
    theirs = determined(literal.network)
    for weight_name, weight in determined(ours.network).items():
        found = (weight - theirs[weight_name]).abs().max().item()
        assert found < 1e-5, weight_name
