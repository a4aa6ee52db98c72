"""The invertible linear layer in front of which prototypes are kept: its start, its training, its temperature.

A layer is a matrix, D x D (outputs x inputs), or, where only variances are known, its diagonal, D.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.methods.base import Report
from protoreplay.methods.optimizers import descend
from protoreplay.prototypes import squared_distances

Episode = Callable[[], tuple[Tensor, Tensor]]
"""Draws support and query features, each K x shots x D: those of row k belong to prototype k."""

TEMPERATURES = torch.logspace(-2, 3, 51)


def apply(layer: Tensor, x: Tensor) -> Tensor:
    """The layer's outputs, ... x D, for inputs, ... x D."""
    return x @ layer.T if layer.ndim == 2 else x * layer


def whitening(covariance: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """The layer after which a shrunk covariance is the identity, and the symmetric root of the covariance itself.

    Args:
        covariance: D x D, or D variances.
        shrinkage: the covariance is shrunk by adding this many of its mean eigenvalues in every direction.
    """
    whole = covariance.double()
    variances = whole.diagonal() if whole.ndim == 2 else whole
    # Of images that do not vary at all, every direction counts alike.
    level = shrinkage * torch.where(variances.mean() > 0, variances.mean(), 1.0)
    if whole.ndim == 1:
        return (whole + level).rsqrt().to(covariance.dtype), whole.sqrt().to(covariance.dtype)
    values, vectors = torch.linalg.eigh(whole)
    values = values.clamp(min=0)
    layer = (vectors * (values + level).rsqrt()) @ vectors.T
    return layer.to(covariance.dtype), ((vectors * values.sqrt()) @ vectors.T).to(covariance.dtype)


@torch.enable_grad()
def train(layer: Tensor, episode: Episode, owners: Tensor, steps: int, lr: float, report: Report) -> Tensor:
    """The layer after `steps` VPR steps: queries are classified by the nearest prototype of the support behind it.

    Args:
        layer: where to start.
        episode: gives each step its features.
        owners: int64, K: the class, from 0 up, of each prototype.
        steps: number of steps.
        lr: Adam's learning rate, times the layer's own scale.
        report: told of every step.
    """
    layer = layer.clone().requires_grad_()
    optimizer = torch.optim.Adam([layer], lr=lr * layer.detach().square().mean().sqrt().item(), fused=True)
    temperature = None
    for step in range(1, steps + 1):
        support, query = (apply(layer, x) for x in episode())
        distances = squared_distances(query.flatten(0, 1), support.mean(1))
        if temperature is None:
            temperature = distances.detach().std(1).mean() / 2
        targets = owners.repeat_interleave(query.shape[1])
        loss = functional.cross_entropy(class_scores(-distances / temperature, owners), targets)
        report(step, steps, descend(optimizer, loss))
    return layer.detach()


def class_scores(scores: Tensor, owners: Tensor) -> Tensor:
    """The best score, N x C, of each class's prototypes, N x K; `owners`, int64, K, are classes from 0 up."""
    best = scores.new_full((len(scores), int(owners.max()) + 1), -torch.inf)
    return best.scatter_reduce(1, owners.expand_as(scores), scores, "amax")


def best_temperature(scores: Tensor, targets: Tensor) -> float:
    """What scores, N x C, must be divided by for the likeliest targets, int64, N."""
    grid = TEMPERATURES.to(scores.device)
    losses = torch.stack([functional.cross_entropy(scores / temperature, targets) for temperature in grid])
    return float(grid[losses.argmin()])
