"""Importances against closed forms and against a plain loop over images."""

import pytest
import torch
from torch import nn

from protoreplay.encoders.network import Network
from protoreplay.methods import importance
from protoreplay.methods.importance import fisher, sensitivity, some

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
            for (name, _), gradient in zip(
                network.named_parameters(),
                torch.autograd.grad(value, list(network.parameters()), retain_graph=True),
            ):
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


def test_a_layer_without_a_formula_is_refused():
    network = nn.Sequential(nn.Flatten(), nn.LayerNorm(4))
    with pytest.raises(TypeError, match="LayerNorm"):
        sensitivity(network, torch.zeros(2, 1, 2, 2), (0, 1))


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
