"""How much a network's answers depend on each weight: exact per-image gradients, of any layer.

The weights of our networks are those of linear and convolutional layers. The gradient of one image for a linear layer
is the outer product of the layer's output gradient and its input, so squares (or magnitudes) of all images sum to one
matrix product; that of a convolution is a small matrix product an image. Nothing of the size images x weights is made
for the large linear layers. All other weights go the general way, `torch.func.vmap` over `grad`, which does that, a few
images at a time, and takes eight times as long.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Literal, NamedTuple

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
AT_ONCE = 2**24
"""Of layers without a formula, so many numbers of per-image gradients are made at once."""


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
    parameters = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
    sums = {id(weight): total[name] for name, weight in parameters.items()}
    for index in torch.arange(len(images)).split(CHUNK):
        calls, scores = _calls(network, images[index], classes)
        known = _with_formula(calls, scores, len(index))
        by_formula = {id(weight) for call in known for weight in call.layer.parameters(recurse=False)}
        others = {name: weight.detach() for name, weight in parameters.items() if id(weight) not in by_formula}
        for gradient in score_gradients(scores.detach(), index):
            if known:
                edges = [call.edge for call in known]
                reached = torch.autograd.grad(scores, edges, gradient, retain_graph=True, allow_unused=True)
                for call, at_output in zip(known, reached, strict=True):
                    if at_output is not None:
                        _add_layer(sums, call, at_output, magnitude)
            if others:
                found = _any_layer(network, others, images[index], classes, gradient, magnitude)
                for name, magnitudes in found:
                    total[name] += magnitudes
    return {name: tensor.div_(len(images)) for name, tensor in total.items()}


class _Call(NamedTuple):
    """A layer was called: what went in, N x ..., and where the gradient for what came out, N x ..., is available.

    What came out itself may have been overwritten since, by an activation in place.
    """

    layer: nn.Module
    x: Tensor
    edge: torch.autograd.graph.GradientEdge


def _calls(network: nn.Module, images: Tensor, classes: tuple[int, ...]) -> tuple[list[_Call], Tensor]:
    """All calls of layers that have a formula, and the scores of `classes`, N x C."""
    calls: list[_Call] = []

    def record(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        if arguments and output.requires_grad:
            calls.append(_Call(layer, arguments[0].detach(), torch.autograd.graph.get_gradient_edge(output)))

    with ExitStack() as hooks:
        for layer in network.modules():
            if type(layer) is nn.Linear or (type(layer) is nn.Conv2d and _is_plain(layer)):
                # First of all hooks: others may change what the layer gives.
                hooks.enter_context(layer.register_forward_hook(record, prepend=True))
        return calls, network(images)[:, list(classes)]


def _with_formula(calls: list[_Call], scores: Tensor, images: int) -> list[_Call]:
    """The calls whose formula holds: rows are images, and the layer's weights are used there and nowhere else."""
    uses = _uses(scores)
    wanted_ndim = {nn.Linear: 2, nn.Conv2d: 4}
    return [
        call
        for call in calls
        if len(call.x) == images
        and call.x.ndim == wanted_ndim[type(call.layer)]
        and all(uses[id(weight)] == 1 for weight in call.layer.parameters(recurse=False) if weight.requires_grad)
    ]


def _uses(scores: Tensor) -> Counter[int]:
    """How often each parameter, by its id, enters the computation of `scores`."""
    found: Counter[int] = Counter()
    met = set()
    queue = [scores.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in met:
            continue
        met.add(node)
        below = [before for before, _ in node.next_functions]
        # Where the graph ends in a parameter, it has a node that holds it.
        found.update(id(leaf.variable) for leaf in below if leaf is not None and hasattr(leaf, "variable"))
        queue += [before for before in below if not hasattr(before, "variable")]
    return found


def _add_layer(sums: Mapping[int, Tensor], call: _Call, gradient: Tensor, magnitude: Magnitude) -> None:
    """Add the magnitudes of each image's gradients for a layer's weight and bias.

    Args:
        sums: where to, by the id of the parameter; of parameters that are not trained there are none.
        call: of a linear or convolutional layer.
        gradient: for what came out of it, N x ...
        magnitude: square or abs.
    """
    layer, x, _ = call
    weight, bias = (sums.get(id(parameter)) for parameter in (layer.weight, layer.bias))
    if isinstance(layer, nn.Linear):
        gradient = magnitude(gradient)
        if weight is not None:
            weight.addmm_(gradient.mT, magnitude(x))
        if bias is not None:
            bias += gradient.sum(0)
        return
    assert isinstance(layer, nn.Conv2d)
    if weight is not None:
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
    if bias is not None:
        bias += magnitude(gradient.sum((2, 3))).sum(0)


def _is_plain(layer: nn.Conv2d) -> bool:
    every_pixel = layer.stride == layer.dilation == (1, 1)
    return every_pixel and layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def _any_layer(
    network: nn.Module,
    weights: Weights,
    images: Tensor,
    classes: tuple[int, ...],
    gradient: Tensor,
    magnitude: Magnitude,
) -> Iterator[tuple[str, Tensor]]:
    """Sums over images of the magnitudes of their gradients for `weights`, whatever layers these belong to.

    Args:
        network: images to scores; in evaluation mode, so that an image's scores are its own.
        weights: some of its parameters.
        images: N x C x H x W.
        classes: the outputs that take part.
        gradient: for the scores of `classes`, N x C.
        magnitude: square or abs.

    Yields:
        Names and sums, a name several times: there are never more than `AT_ONCE` numbers, or those of one image.
    """

    def along(weights: Weights, image: Tensor, direction: Tensor) -> Tensor:
        scores: Tensor = torch.func.functional_call(network, weights, (image[None],))
        return torch.dot(scores[0, list(classes)], direction)

    of_image = torch.func.grad(along)
    size = min(CHUNK, max(1, AT_ONCE // sum(weight.numel() for weight in weights.values())))
    for part, directions in zip(images.split(size), gradient.split(size), strict=True):
        try:
            found = torch.func.vmap(of_image, in_dims=(None, 0, 0))(weights, part, directions)
        except RuntimeError:  # a layer that vmap cannot do, such as one that looks at its numbers: image by image
            alone = [of_image(weights, *one) for one in zip(part, directions, strict=True)]
            found = {name: torch.stack([gradients[name] for gradients in alone]) for name in weights}
        yield from ((name, magnitude(gradients).sum(0)) for name, gradients in found.items())
