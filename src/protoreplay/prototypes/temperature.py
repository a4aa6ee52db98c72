"""The temperature of probabilities: the likeliest one of images that are left out of all that was learned of them."""

import torch
from torch import Tensor
from torch.nn import functional

TEMPERATURES = torch.logspace(-2, 3, 51)
"""What scores may be divided by."""
DOUBT = 0.5
"""Difference of log-likelihoods that does not count."""


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


def losses_at_temperatures(scores: Tensor, targets: Tensor) -> Tensor:
    """At each of `TEMPERATURES`, minus the log-likelihood of targets, int64, N, by scores, N x C: T."""
    found = [functional.cross_entropy(scores / float(at), targets, reduction="sum") for at in TEMPERATURES]
    return torch.stack(found).cpu()


def best_temperature(losses: Tensor) -> float:
    """The likeliest of `TEMPERATURES`, or the highest that is as likely but for `DOUBT`; `losses` are theirs, T.

    So answers that were all right do not make a certainty.
    """
    return float(TEMPERATURES[losses <= losses.min() + DOUBT].max())
