"""VPR steps on an invertible linear layer in front of which prototypes are kept."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.prototypes.distances import squared_distances
from protoreplay.prototypes.gaussians import class_scores
from protoreplay.prototypes.whitening import SquareMatrix

Episode = Callable[[], tuple[Tensor, Tensor]]
"""Draws support and query features, each K x shots x D: those of row k belong to prototype k."""


@torch.enable_grad()
def train_layer(
    layer: SquareMatrix, episode: Episode, owners: Tensor, steps: int, lr: float, on_step: StepCallback
) -> SquareMatrix:
    """The layer after `steps` VPR steps: queries are classified by the nearest prototype of the support behind it.

    Args:
        layer: where to start.
        episode: gives each step its features.
        owners: int64, K: the class, from 0 up, of each prototype.
        steps: number of steps.
        lr: Adam's learning rate, times the layer's own scale.
        on_step: told of every step.
    """
    lr *= layer.values.square().mean().sqrt().item()
    weights = layer.values.clone().requires_grad_()
    layer = replace(layer, values=weights)
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    temperature = None
    for step in range(1, steps + 1):
        support, query = (layer.times(x) for x in episode())
        distances = squared_distances(query.flatten(0, 1), support.mean(1))
        if temperature is None:
            temperature = distances.detach().std(1).mean() / 2
        targets = owners.repeat_interleave(query.shape[1])
        loss = functional.cross_entropy(class_scores(-distances / temperature, owners), targets)
        (gradient,) = torch.autograd.grad(loss, weights)
        # Adam, written out: the first use of `torch.optim` imports its compiler, which took 1.8 s of processor time
        # where all 180 steps of a run on split-digits took 0.4 s (2 cores, torch 2.13; a second use takes 5 ms).
        mean.lerp_(gradient, 0.1)
        square.lerp_(gradient.square_(), 0.001)
        root = (square / (1 - 0.999**step)).sqrt_().add_(1e-8)
        weights.data.addcdiv_(mean, root, value=-lr / (1 - 0.9**step))
        on_step(step, steps, loss.item())
    return replace(layer, values=weights.detach())
