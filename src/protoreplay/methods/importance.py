"""How much a network's answers depend on each weight: exact per-image gradients, without a loop over images.

All weights of our networks are those of linear and convolutional layers. The gradient of one image for a linear layer
is the outer product of the layer's output gradient and its input, so squares (or magnitudes) of all images sum to one
matrix product; that of a convolution is a small matrix product an image. Nothing of the size images x weights is made
for the large linear layers; the general way, `torch.func.vmap` over `grad`, does that and takes eight times as long.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.methods.penalty import Weights, no_importance

FisherLabels = Literal["true", "predicted", "sampled", "all"]

Magnitude = Callable[[Tensor], Tensor]
"""Element by element, and such that the magnitude of a product is the product of magnitudes: square, abs."""

ScoreGradients = Callable[[Tensor, Tensor], list[Tensor]]
"""From scores (N x C) and the images' indices (int64, N): gradients for the scores, each N x C."""

CHUNK = 32


def fisher(
    network: nn.Module,
    images: Tensor,
    targets: Tensor,
    classes: tuple[int, ...],
    labels: FisherLabels,
    generator: torch.Generator,
) -> Weights:
    """The diagonal of the Fisher information: the mean over images of the squared gradient of a log-probability.

    Args:
        network: images to scores.
        images: N x C x H x W.
        targets: int64, N: true labels as indices into `classes`.
        classes: the outputs that take part.
        labels: whose probability: the true label's (the empirical Fisher information), the most probable one's, one
            drawn from the network's own probabilities, or the expectation over these (one backward pass a class).
        generator: draws the labels, if any are drawn.
    """

    def score_gradients(scores: Tensor, index: Tensor) -> list[Tensor]:
        probabilities = scores.softmax(1)
        everything = torch.eye(len(classes), device=scores.device)
        if labels == "all":
            # The square root, because gradients are squared.
            return [
                (one - probabilities) * probabilities[:, label, None].sqrt() for label, one in enumerate(everything)
            ]
        if labels == "true":
            chosen = targets[index]
        elif labels == "predicted":
            chosen = scores.argmax(1)
        else:
            chosen = torch.multinomial(probabilities.cpu(), 1, generator=generator).flatten().to(scores.device)
        return [everything[chosen] - probabilities]

    return _mean_over_images(network, images, classes, score_gradients, torch.square)


def sensitivity(network: nn.Module, images: Tensor, classes: tuple[int, ...]) -> Weights:
    """The importance of Memory Aware Synapses: the mean over images of the gradient's magnitude.

    The gradient is that of the squared length of the scores of `classes`.
    """
    return _mean_over_images(network, images, classes, lambda scores, index: [2 * scores], torch.abs)


def some(count: int, wanted: int | Literal["all"], generator: torch.Generator) -> Tensor:
    """Indices (int64) of `wanted` of `count` images, drawn at random, or of all where there are no more."""
    if wanted == "all" or wanted >= count:
        return torch.arange(count)
    return torch.randperm(count, generator=generator)[:wanted]


def _mean_over_images(
    network: nn.Module, images: Tensor, classes: tuple[int, ...], score_gradients: ScoreGradients, magnitude: Magnitude
) -> Weights:
    total = no_importance(network)
    met: list[tuple[str, nn.Module, Tensor, Tensor]] = []
    with ExitStack() as hooks:
        for name, layer in network.named_modules():
            if any(True for _ in layer.parameters(recurse=False)):
                hooks.enter_context(layer.register_forward_hook(partial(_record, met, name)))
        for index in torch.arange(len(images)).split(CHUNK):
            met.clear()
            scores = network(images[index])[:, list(classes)]
            outputs = [output for *_, output in met]
            for gradient in score_gradients(scores.detach(), index):
                reached = torch.autograd.grad(scores, outputs, gradient, retain_graph=True)
                for (name, layer, x, _), at_output in zip(met, reached, strict=True):
                    _add_layer(total[f"{name}.weight"], total[f"{name}.bias"], layer, x, at_output, magnitude)
    return {name: tensor.div_(len(images)) for name, tensor in total.items()}


def _record(
    met: list[tuple[str, nn.Module, Tensor, Tensor]],
    name: str,
    layer: nn.Module,
    arguments: tuple[Tensor],
    output: Tensor,
) -> None:
    met.append((name, layer, arguments[0].detach(), output))


def _add_layer(
    weight: Tensor, bias: Tensor, layer: nn.Module, x: Tensor, gradient: Tensor, magnitude: Magnitude
) -> None:
    """Add the magnitudes of each image's gradients for a layer's weight and bias to these.

    Args:
        weight: of the shape of the layer's weight.
        bias: of the shape of the layer's bias.
        layer: linear or convolutional.
        x: what went into the layer, N x ...
        gradient: for what came out of it, N x ...
        magnitude: square or abs.
    """
    if isinstance(layer, nn.Linear):
        gradient = magnitude(gradient)
        weight.addmm_(gradient.mT, magnitude(x))
        bias += gradient.sum(0)
    elif isinstance(layer, nn.Conv2d) and _is_plain(layer):
        # Windows along a row, not whole patches: a fifth of the copying for a kernel of five rows. Channels lie last in
        # memory, so each window is copied in one piece.
        (down, right), height = layer.kernel_size, gradient.shape[2]
        top, left = (int(size) for size in layer.padding)
        padded = functional.pad(x, (left, left, top, top)).movedim(1, -1)
        windows = padded.unfold(2, right, 1).mT.flatten(3).contiguous()
        at_places = gradient.movedim(1, -1).flatten(1, 2).mT
        for row in range(down):
            per_image = at_places @ windows[:, row : row + height].flatten(1, 2)
            weight[:, :, row] += magnitude(per_image).sum(0).view(-1, right, layer.in_channels).mT
        bias += magnitude(gradient.sum((2, 3))).sum(0)
    else:
        raise TypeError(f"no per-image gradients of {layer}")


def _is_plain(layer: nn.Conv2d) -> bool:
    every_pixel = layer.stride == layer.dilation == (1, 1)
    return every_pixel and layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
