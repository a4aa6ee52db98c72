"""Importances against closed forms and against a plain loop over images."""

import pytest
import torch
from torch import nn

from protoreplay.encoders.network import Network
from protoreplay.encoders.registry import ENCODERS
from protoreplay.methods import importance
from protoreplay.methods.importance import fisher, sensitivity, some
from tests.methods.small_resnet import SmallResNet

LABELS = ["true", "predicted", "sampled", "all"]


def random():
    return torch.Generator().manual_seed(0)


def images_and_targets(shape, count, classes):
    images = torch.randint(0, 256, (count, *shape), generator=random()).to(torch.uint8)
    return images, torch.randint(0, classes, (count,), generator=random())


class Linear(nn.Module):
    """Scores that are linear in the image."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
        nn.init.normal_(self.layer.weight, generator=random())
        nn.init.normal_(self.layer.bias, generator=random())

    def forward(self, images):
        return self.layer(images.flatten(1).float() / 255)


def log_probability_weights(labels, probabilities, targets):
    """N x C: how much the squared gradient of each label's log-probability counts."""
    if labels == "all":
        return probabilities
    drawn = torch.multinomial(probabilities, 1, generator=random()).flatten()
    chosen = {"true": targets, "predicted": probabilities.argmax(1), "sampled": drawn}[labels]
    return nn.functional.one_hot(chosen, probabilities.shape[1]).float()


@pytest.mark.parametrize("labels", LABELS)
def test_fisher_of_a_linear_model_is_its_closed_form(labels):
    """The gradient of log p_y for weight (c, d) is (1[c = y] - p_c) x_d; only outputs 1, 3 and 4 take part."""
    network, classes = Linear(12, 6), (1, 3, 4)
    images, targets = images_and_targets((3, 2, 2), 20, 3)
    x = images.flatten(1).double() / 255
    probabilities = (x @ network.layer.weight.T.double() + network.layer.bias.double())[:, classes].softmax(1).detach()
    counts = log_probability_weights(labels, probabilities, targets).double()
    residual = torch.eye(3)[None] - probabilities[:, None]  # image, label, output
    squares = torch.einsum("nyc,ny->nc", residual.square(), counts)
    weight, bias = torch.zeros(6, 12, dtype=torch.float64), torch.zeros(6, dtype=torch.float64)
    weight[list(classes)] = squares.T @ x.square() / len(x)
    bias[list(classes)] = squares.mean(0)
    found = fisher(network, images, targets, classes, labels, random())
    torch.testing.assert_close(found["layer.weight"], weight.float(), rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(found["layer.bias"], bias.float(), rtol=1e-4, atol=1e-7)


def test_exact_fisher_is_what_sampled_labels_tend_to():
    network = Linear(4, 3)
    images, targets = images_and_targets((1, 2, 2), 10, 3)
    exact = fisher(network, images, targets, (0, 1, 2), "all", random())
    many = images.repeat(2000, 1, 1, 1)
    drawn = fisher(network, many, targets.repeat(2000), (0, 1, 2), "sampled", random())
    torch.testing.assert_close(drawn["layer.weight"], exact["layer.weight"], rtol=0.1, atol=1e-3)


def test_sensitivity_of_a_linear_model_is_its_closed_form():
    """The squared length of the scores s changes by 2 s_c x_d with weight (c, d)."""
    network, classes = Linear(12, 6), (0, 5)
    images, _ = images_and_targets((3, 2, 2), 20, 2)
    x = images.flatten(1).float() / 255
    scores = network(images)[:, classes].detach()
    found = sensitivity(network, images, classes)
    expected = torch.zeros(6, 12)
    expected[list(classes)] = torch.stack([(2 * s[:, None] * row).abs() for s, row in zip(scores, x)]).mean(0)
    torch.testing.assert_close(found["layer.weight"], expected)
    torch.testing.assert_close(found["layer.bias"][[0, 5]], (2 * scores).abs().mean(0))


def loop(network, images, objectives, magnitude):
    """Autograd, one image and one objective at a time; `objectives(scores, n)` gives pairs of a factor and a value."""
    total = {name: torch.zeros_like(weight) for name, weight in network.named_parameters()}
    for n in range(len(images)):
        for factor, value in objectives(network(images[n : n + 1])[0], n):
            trained = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
            found = torch.autograd.grad(value, list(trained.values()), retain_graph=True, allow_unused=True)
            for name, gradient in zip(trained, found):
                if gradient is not None:
                    total[name] += factor * magnitude(gradient) / len(images)
    return total


@pytest.mark.parametrize("encoder", ["lenet", "mlp-small", "conv5"])
@pytest.mark.parametrize("labels", ["true", "all"])
def test_fisher_is_the_loop_over_images(encoder, labels, monkeypatch):
    monkeypatch.setattr(importance, "CHUNK", 3)
    network, classes = Network(encoder, (3, 16, 16), 5, random()), (0, 2, 3)
    images, targets = images_and_targets((3, 16, 16), 7, 3)

    def objectives(scores, n):
        logs = scores[list(classes)].log_softmax(0)
        if labels == "true":
            return [(1.0, logs[targets[n]])]
        return [(log.exp().detach(), log) for log in logs]

    found = fisher(network, images, targets, classes, labels, random())
    expected = loop(network, images, objectives, torch.square)
    assert found.keys() == expected.keys()
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-9)
        assert name.startswith("head") or found[name].sum() > 0


@pytest.mark.parametrize("encoder", ["lenet", "mlp-small"])
def test_sensitivity_is_the_loop_over_images(encoder):
    network, classes = Network(encoder, (3, 16, 16), 5, random()), (1, 4)
    images, _ = images_and_targets((3, 16, 16), 7, 2)
    found = sensitivity(network, images, classes)
    expected = loop(network, images, lambda scores, n: [(1.0, scores[list(classes)].square().sum())], torch.abs)
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-7)


class NoBias(nn.Module):
    """Layers without bias, an activation in place, and a layer that is not trained."""

    def __init__(self, shape):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, bias=False),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(4 * (shape[1] - 2) * (shape[2] - 2), 6, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(6, 6),
            nn.Tanh(),
        )
        self.layers[5].weight.requires_grad_(False)

    def forward(self, images):
        return self.layers(images.float() / 255)


class Shared(nn.Module):
    """A layer called twice, one whose weight is used elsewhere too, one called for every row, one by keyword."""

    def __init__(self, shape):
        super().__init__()
        self.rows, self.twice = nn.Linear(shape[2], 4), nn.Linear(4 * shape[0] * shape[1], 4 * shape[0] * shape[1])
        self.tied, self.last = nn.Linear(4 * shape[0] * shape[1], 5), nn.Linear(5, 5)
        self.flat = nn.Linear(4, 4)
        self.unused = nn.Linear(2, 2)

    def forward(self, images):
        x = self.rows(images.float() / 255).tanh()
        x = self.flat(x.reshape(-1, 4)).reshape(len(images), -1)
        x = self.tied(self.twice(self.twice(x).tanh()).tanh())
        return self.last(input=(x.tanh() @ self.tied.weight).tanh() @ self.tied.weight.T)


class OfAllKinds(nn.Module):
    """Convolutions that are grouped, dilated, of other padding; other norms; a branch on numbers, unknown to vmap."""

    def __init__(self, shape):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, dilation=2, padding=2),
            nn.GroupNorm(2, 4),
            nn.Conv2d(4, 4, 3, groups=2, padding="same"),
            nn.Conv2d(4, 2, 3, padding=1, padding_mode="circular"),
            nn.PReLU(),
        )
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, images):
        x = self.layers(images.float() / 255).mean((2, 3))
        return x * self.scale if float(x.detach().sum()) > -1e9 else x


@pytest.mark.parametrize("trunk", [SmallResNet, NoBias, Shared, OfAllKinds])
@pytest.mark.parametrize("at_once", [1, 1000, importance.AT_ONCE])
def test_importances_of_any_layers_are_the_loop_over_images(trunk, at_once, monkeypatch):
    """With batch normalisation that has seen images, and however few gradients fit into memory."""
    monkeypatch.setattr(importance, "AT_ONCE", at_once)
    monkeypatch.setattr(importance, "CHUNK", 4)
    shape, classes = (3, 8, 8), (0, 2, 3)
    monkeypatch.setattr(ENCODERS, "_session", {})
    ENCODERS.register("in-this-test", trunk)
    network = Network("in-this-test", shape, 5, random())
    images, targets = images_and_targets(shape, 7, 3)
    with torch.no_grad(), network.training_mode():
        network(images)
    found = fisher(network, images, targets, classes, "true", random())
    expected = loop(
        network, images, lambda scores, n: [(1.0, scores[list(classes)].log_softmax(0)[targets[n]])], torch.square
    )
    assert found.keys() == expected.keys()
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-9)
    found = sensitivity(network, images, classes)
    expected = loop(network, images, lambda scores, n: [(1.0, scores[list(classes)].square().sum())], torch.abs)
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-7)
    moved = {name for name in found if found[name].any()}
    still = {name for name, weight in network.named_parameters() if not weight.requires_grad or "unused" in name}
    assert moved == found.keys() - still


def test_a_network_of_which_nothing_is_trained_has_no_importance():
    network = Linear(4, 3).requires_grad_(False)
    found = sensitivity(network, torch.ones(2, 1, 2, 2, dtype=torch.uint8), (0, 1))
    assert not any(tensor.any() for tensor in found.values())


def test_hooks_are_gone_afterwards():
    network = Linear(4, 3)
    sensitivity(network, torch.zeros(2, 1, 2, 2, dtype=torch.uint8), (0, 1))
    assert not network.layer._forward_hooks


def test_some_of_many_images_are_a_random_draw_without_repeats():
    assert torch.equal(some(5, "all", random()), torch.arange(5))
    assert torch.equal(some(5, 9, random()), torch.arange(5))
    drawn = some(100, 10, random())
    assert len(drawn.unique()) == 10
    assert not torch.equal(drawn, torch.arange(10))
