"""How sure `vpr` may be: a task's own images, each left out of all that was learned of it, tell the temperature."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.methods.vpr_prototypes import DomainPrototypes, doubles
from protoreplay.prototypes.covariance import RidgeInverse
from protoreplay.prototypes.gaussians import class_scores
from protoreplay.prototypes.left_out import LeftOutGroups, left_out_products
from protoreplay.prototypes.sums import Floats

MOST_IMAGES = 50
"""Images of a class, at most, that probabilities are calibrated on."""
TEMPERATURES = torch.logspace(-2, 3, 51)
"""What scores may be divided by."""
DOUBT = 0.5
"""Difference of log-likelihoods that does not count."""


@dataclass(frozen=True)
class TaughtImages:
    """Images of one class, and what each of them has done.

    Attributes:
        label: the class.
        x: the images' features, N x D.
        pull: by how much each has moved the class's prototype, N x D.
        added: rows whose products each has added to the scatter, N x R x D.
    """

    label: int
    x: Tensor
    pull: Tensor
    added: Tensor

    @classmethod
    def of(cls, label: int, views: Tensor, apart: Tensor, weight: float) -> "TaughtImages":
        """From views, V x N x D, and the differences of their means from the prototype, N x D, with their weight."""
        images = views.shape[1]
        others = max(images - 1, 1)
        views, apart = views[:, :MOST_IMAGES], apart[:MOST_IMAGES]
        changed = (views - views.mean(0)).transpose(0, 1)
        own = math.sqrt(weight * images / others) * apart[:, None]
        return cls(label, views[0], apart / others, torch.cat([changed, own], 1))

    def groups(self, centre: Floats, owner: int) -> LeftOutGroups:
        """Each image, with its views, as a group of its own; `owner` is the place of the class's prototype."""
        nothing, owners = np.zeros(len(self.x)), np.full(len(self.x), owner)
        queries = doubles(self.x)[:, None] - centre
        return LeftOutGroups(queries, doubles(self.pull), doubles(self.added), nothing, owners)


def left_out_losses(
    taught: list[TaughtImages], prototypes: DomainPrototypes, inverse: RidgeInverse, shrink: float
) -> Tensor | None:
    """At each of `TEMPERATURES`, the loss of a task's own images, each left out of all that was learned: T.

    With several prototypes of a class an image counts too little in its own to be left out. Of one class alone nothing
    can be told: None.

    Args:
        taught: the images.
        prototypes: among them those of the images' classes.
        inverse: of the covariance, with its ridge.
        shrink: how far from the centre prototypes are taken to be.
    """
    classes, owners = prototypes.classes.cpu().unique(return_inverse=True)
    if len(classes) < 2:
        return None
    means = doubles(prototypes.mean)
    centre, freedom = means.mean(0), float(prototypes.count.sum())
    one_each = len(prototypes) == len(classes)
    scores, targets = [], []
    for images in taught:
        place = int(torch.searchsorted(classes, images.label))
        groups = images.groups(centre, int((owners == place).nonzero()[0]))
        if not one_each:
            groups = groups._replace(pulls=np.zeros_like(groups.pulls))
        if not one_each or not len(inverse.bend):
            # Of a row only its squares were added to variances: its products cannot be taken out of them again.
            groups = groups._replace(added=groups.added[:, :0])
        products = left_out_products(groups, means - centre, inverse, freedom)
        scores.append(torch.from_numpy(products.cross[:, 0] - shrink / 2 * products.squares))
        targets.append(torch.full((len(images.x),), place))
    return losses_at_temperatures(class_scores(torch.cat(scores), owners), torch.cat(targets))


def losses_at_temperatures(scores: Tensor, targets: Tensor) -> Tensor:
    """At each of `TEMPERATURES`, minus the log-likelihood of targets, int64, N, by scores, N x C: float32, T."""
    found = [functional.cross_entropy(scores / float(at), targets, reduction="sum") for at in TEMPERATURES]
    return torch.stack(found).float()


def best_temperature(losses: Tensor) -> float:
    """The likeliest of `TEMPERATURES`, or the highest that is as likely but for `DOUBT`; `losses` are theirs, T.

    So answers that were all right do not make a certainty.
    """
    return float(TEMPERATURES[losses <= losses.min() + DOUBT].max())
