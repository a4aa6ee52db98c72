"""How sure `vpr` may be: a task's own images, each left out of all that was learned of it, tell the temperature."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from protoreplay.methods.vpr_prototypes import DomainPrototypes
from protoreplay.prototypes.gaussians import class_scores
from protoreplay.prototypes.temperature import left_out_scores, losses_at_temperatures
from protoreplay.prototypes.whitening import SquareMatrix

MOST_IMAGES = 50
"""Images of a class, at most, that probabilities are calibrated on."""


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


def left_out_losses(
    taught: list[TaughtImages], prototypes: DomainPrototypes, layer: SquareMatrix, shrink: float
) -> Tensor | None:
    """At each of `TEMPERATURES`, the loss of a task's own images, each left out of all that was learned: T.

    With several prototypes of a class an image counts too little in its own to be left out. Of one class alone nothing
    can be told: None.

    Args:
        taught: the images.
        prototypes: among them those of the images' classes.
        layer: behind which images are compared with prototypes.
        shrink: how far from the centre prototypes are taken to be.
    """
    classes, owners = prototypes.classes.unique(return_inverse=True)
    if len(classes) < 2:
        return None
    centre, seen = prototypes.mean.mean(0), prototypes.count.sum()
    behind = layer.times(prototypes.mean - centre)
    parts = []
    for one in taught:
        x = layer.times(one.x - centre)
        apart, added = behind.expand(len(x), -1, -1), one.added[:, :0]
        if len(prototypes) == len(classes):
            own = (prototypes.classes == one.label)[:, None]
            apart = apart - own * layer.times(one.pull)[:, None]
            added = layer.times(layer.removable_rows(one.added) / seen.sqrt())
        parts.append(left_out_scores(x, apart, added, shrink))
    device = owners.device
    targets = torch.searchsorted(classes, torch.tensor([t.label for t in taught], device=device))
    targets = targets.repeat_interleave(torch.tensor([len(part) for part in parts], device=device))
    return losses_at_temperatures(class_scores(torch.cat(parts), owners), targets)
