"""The invertible linear layer in front of which prototypes are kept: its start, its training, its temperature.

A layer is a matrix, D x D (outputs x inputs), or, where only variances are known, its diagonal, D.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.prototypes.distances import squared_distances

Episode = Callable[[], tuple[Tensor, Tensor]]
"""Draws support and query features, each K x shots x D: those of row k belong to prototype k."""

TEMPERATURES = torch.logspace(-2, 3, 51)
"""What scores may be divided by."""
DOUBT = 0.5
"""Difference of log-likelihoods that does not count."""


def apply(layer: Tensor, x: Tensor) -> Tensor:
    """The layer's outputs, ... x D, for inputs, ... x D."""
    return x @ layer.T if layer.ndim == 2 else x * layer


def whitening(covariance: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """The layer after which a shrunk covariance is the identity, and the symmetric root of the covariance itself.

    Args:
        covariance: D x D, or D variances.
        shrinkage: the covariance is shrunk by adding this many of its mean eigenvalues in every direction.
    """
    variances = covariance.diagonal() if covariance.ndim == 2 else covariance
    # Of images that do not vary at all, every direction counts alike.
    level = shrinkage * torch.where(variances.mean() > 0, variances.mean(), 1.0)
    if covariance.ndim == 1:
        return (covariance + level).rsqrt(), covariance.sqrt()
    values, vectors = torch.linalg.eigh(covariance)
    values = values.clamp(min=0)
    return (vectors * (values + level).rsqrt()) @ vectors.T, (vectors * values.sqrt()) @ vectors.T


@torch.enable_grad()
def train(layer: Tensor, episode: Episode, owners: Tensor, steps: int, lr: float, report: StepCallback) -> Tensor:
    """The layer after `steps` VPR steps: queries are classified by the nearest prototype of the support behind it.

    Args:
        layer: where to start.
        episode: gives each step its features.
        owners: int64, K: the class, from 0 up, of each prototype.
        steps: number of steps.
        lr: Adam's learning rate, times the layer's own scale.
        report: told of every step.
    """
    lr *= layer.square().mean().sqrt().item()
    layer = layer.clone().requires_grad_()
    mean, square = torch.zeros_like(layer), torch.zeros_like(layer)
    temperature = None
    for step in range(1, steps + 1):
        support, query = (apply(layer, x) for x in episode())
        distances = squared_distances(query.flatten(0, 1), support.mean(1))
        if temperature is None:
            temperature = distances.detach().std(1).mean() / 2
        targets = owners.repeat_interleave(query.shape[1])
        loss = functional.cross_entropy(class_scores(-distances / temperature, owners), targets)
        (gradient,) = torch.autograd.grad(loss, layer)
        # Adam, written out: what `torch.optim` imports at its first use takes longer than all steps of a run.
        mean.lerp_(gradient, 0.1)
        square.lerp_(gradient.square_(), 0.001)
        root = (square / (1 - 0.999**step)).sqrt_().add_(1e-8)
        layer.data.addcdiv_(mean, root, value=-lr / (1 - 0.9**step))
        report(step, steps, loss.item())
    return layer.detach()


def class_scores(scores: Tensor, owners: Tensor) -> Tensor:
    """The best score, N x C, of each class's prototypes, N x K; `owners`, int64, K, are classes from 0 up."""
    best = scores.new_full((len(scores), int(owners.max()) + 1), -torch.inf)
    return best.scatter_reduce(1, owners.expand_as(scores), scores, "amax")


def left_out_scores(x: Tensor, prototypes: Tensor, added: Tensor, shrink: float) -> Tensor:
    """Scores, N x K, of images as if each had not been among those whose covariance the layer whitens.

    Without an image that covariance is not the identity but less by what the image added to it; products with its
    inverse follow from the few rows that were added.

    Args:
        x: behind the layer, from the prototypes' centre, N x D.
        prototypes: the same of those each image is compared with, N x K x D.
        added: behind the layer, the rows whose products each image added to the covariance, N x R x D.
        shrink: how far from the centre prototypes are taken to be.
    """
    along, toward = added @ prototypes.mT, (added @ x[..., None])[..., 0]
    less = torch.eye(added.shape[1], device=x.device) - added @ added.mT
    solved = torch.linalg.solve(less, along)
    cross = (prototypes @ x[..., None])[..., 0] + (toward[..., None] * solved).sum(1)
    scores: Tensor = cross - shrink / 2 * (prototypes.square().sum(2) + (along * solved).sum(1))
    return scores


def losses(scores: Tensor, targets: Tensor) -> Tensor:
    """At each of `TEMPERATURES`, minus the log-likelihood of targets, int64, N, by scores, N x C: T."""
    found = [functional.cross_entropy(scores / float(at), targets, reduction="sum") for at in TEMPERATURES]
    return torch.stack(found).cpu()


def best_temperature(losses: Tensor) -> float:
    """The likeliest of `TEMPERATURES`, or the highest that is as likely but for `DOUBT`; `losses` are theirs, T.

    So answers that were all right do not make a certainty.
    """
    return float(TEMPERATURES[losses <= losses.min() + DOUBT].max())
