"""Networks that turn images into features: trained ones with their head, and bodies made from a few images."""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.augmentation import turn_and_zoom

ImageShape = tuple[int, int, int]


class Normalise(nn.Module):
    """Pixels of 0..255, N x C x H x W, to floats in [-1, 1]: by constants, so no image but the given is needed.

    Channels lie last in memory: convolutions keep that, and pooling is then several times as fast.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Scale."""
        return images.to(torch.float32, memory_format=torch.channels_last) / 127.5 - 1


class Shares(nn.Module):
    """Pixels of 0..255, N x C x H x W, to floats in [0, 1].

    A pixel that is black takes no part, and what a task does not use stays free for others: where pixels come in
    another order with every task, regularisers then forget far less.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Scale."""
        return images / 255.0


# Pooling stands before the threshold: the same numbers, a quarter of them to threshold.
def _two_convolutions(shape: ImageShape, side: int, filters: tuple[int, int], hidden: int) -> nn.Sequential:
    channels, height, width = shape
    return nn.Sequential(
        Normalise(),
        nn.Conv2d(channels, filters[0], side, padding=side // 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(*filters, side, padding=side // 2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(filters[1] * (height // 4) * (width // 4), hidden),
        nn.ReLU(),
    )


def _two_hidden_layers(shape: ImageShape, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        Shares(),
        nn.Flatten(),
        nn.Linear(math.prod(shape), hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
    )


def conv_small(shape: ImageShape) -> nn.Sequential:
    """Two 3 x 3 convolutions and a hidden layer of 64, for the 8 x 8 digits."""
    return _two_convolutions(shape, 3, (16, 32), 64)


def lenet(shape: ImageShape) -> nn.Sequential:
    """The paper's network for CIFAR-10: two 5 x 5 convolutions of 20 and 50, each pooled, and a hidden layer of 500."""
    return _two_convolutions(shape, 5, (20, 50), 500)


def mlp_small(shape: ImageShape) -> nn.Sequential:
    """Two hidden layers of 128, for permuted digits."""
    return _two_hidden_layers(shape, 128)


def mlp_1000(shape: ImageShape) -> nn.Sequential:
    """The paper's network for permuted MNIST: two hidden layers of 1000."""
    return _two_hidden_layers(shape, 1000)


def conv5(shape: ImageShape) -> nn.Sequential:
    """The paper's network for mini-ImageNet: five 3 x 3 convolutions, four pooled, and a hidden layer of 500."""
    channels, height, width = shape
    layers: list[nn.Module] = [Normalise()]
    for number, filters in enumerate((64, 128, 128, 256, 256)):
        layers.append(nn.Conv2d(channels, filters, 3, padding=1))
        layers += [nn.MaxPool2d(2), nn.ReLU()] if number < 4 else [nn.ReLU()]
        channels = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (height // 16) * (width // 16), 500), nn.ReLU())


ENCODERS: dict[str, Callable[[ImageShape], nn.Sequential]] = {
    "conv-small": conv_small,
    "mlp-small": mlp_small,
    "lenet": lenet,
    "mlp-1000": mlp_1000,
    "conv5": conv5,
}
"""By name; each takes channels, height and width. Pooling halves: images must not be smaller than what is pooled."""


LOGVAR_BOUND = 70.0
"""Log-variances end here: nothing in VPR's loss holds them, and over many tasks their exponentials would overflow."""


class Network(nn.Module):
    """An encoder trunk with one linear layer on top.

    The layer's outputs are class scores (`forward`), or, where `outputs` is twice the latent dimension, the mean and
    the log-variance of the image's distribution (`gaussian`).

    Args:
        encoder: a name of `ENCODERS`.
        shape: channels, height, width of the images.
        outputs: width of the linear layer.
        generator: all initial weights are drawn from it; the global random state is neither read nor changed.
    """

    def __init__(self, encoder: str, shape: ImageShape, outputs: int, generator: torch.Generator) -> None:
        """Build the layers without memory first, then draw their weights."""
        super().__init__()
        with torch.device("meta"):
            self.trunk = ENCODERS[encoder](shape)
            width = next(m.out_features for m in reversed(self.trunk) if isinstance(m, nn.Linear))
            self.head = nn.Linear(width, outputs)
        self.to_empty(device="cpu")
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                _draw_weights(module, generator)

    def forward(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to N x outputs."""
        return cast(Tensor, self.head(self.trunk(images)))

    def gaussian(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels of 0..255, N x C x H x W, to mean and log-variance, each N x (outputs / 2)."""
        return as_gaussian(self(images))


def as_gaussian(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and bounded log-variance, each N x D, of a network's outputs, N x 2 D."""
    mean, logvar = outputs.chunk(2, dim=1)
    return mean, logvar.clamp(-LOGVAR_BOUND, LOGVAR_BOUND)


@torch.no_grad()
def _draw_weights(layer: nn.Linear | nn.Conv2d, generator: torch.Generator) -> None:
    """PyTorch's default initialisation: weights and biases uniform within 1 / sqrt(inputs of a unit)."""
    bound = layer.weight[0].numel() ** -0.5
    layer.weight.uniform_(-bound, bound, generator=generator)
    if layer.bias is not None:
        layer.bias.uniform_(-bound, bound, generator=generator)


class Pixels(nn.Module):
    """The square root of every pixel, all of an image of unit length: for images whose pixels have no neighbours."""

    def __init__(self, shape: ImageShape) -> None:
        """Nothing is learned."""
        super().__init__()
        self.width = math.prod(shape)

    def fit(self, images: Tensor, generator: torch.Generator) -> None:
        """Nothing is learned."""

    def forward(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to N x width."""
        return functional.normalize(images.flatten(1).to(torch.float32).sqrt())


class Dictionary(nn.Module):
    """A convolutional dictionary, learned from patches of a few images without a label or a gradient.

    Filters are the centres of whitened patches. What a filter answers, divided by the contrast below it, is cut at a
    threshold on both sides, averaged over a grid of `GRID` x `GRID` fields, square-rooted, and scaled to unit length.
    Two projections follow, both onto the directions in which changed copies of the images vary most: of the answers in
    every field, by one matrix for all fields, and of what all fields have then together.

    Args:
        shape: channels, height, width of the images.
        filters: number of filters.
        side: of a patch, in pixels.
        width: numbers of an image in the end.
        mirror: whether an image counts as much as its mirror image: both have the mean of their answers.
    """

    GRID, THRESHOLD, CONTRAST, RIDGE = 3, 1.0, 10.0, 0.1
    PATCHES, ROUNDS, COPIES, FIELD_WIDTH = 20_000, 15, 1_000, 120

    filters: Tensor
    offset: Tensor
    field: Tensor
    centre: Tensor
    projection: Tensor

    def __init__(self, shape: ImageShape, filters: int, side: int, width: int, mirror: bool) -> None:
        """Room for what `fit` learns."""
        super().__init__()
        channels, height, across = shape
        self.side = min(side, height, across)
        self.stride = max(1, min(height, across) // 16)
        self.width, self.mirror = width, mirror
        self.places = [(length - self.side) // self.stride + 1 for length in (height, across)]
        kept = min(self.FIELD_WIDTH, 2 * filters)
        self.register_buffer("filters", torch.zeros(filters, channels * self.side**2))
        self.register_buffer("offset", torch.zeros(filters))
        self.register_buffer("field", torch.zeros(2 * filters, kept))
        self.register_buffer("centre", torch.zeros(kept * self.GRID**2))
        self.register_buffer("projection", torch.zeros(kept * self.GRID**2, width))

    @torch.no_grad()
    def fit(self, images: Tensor, generator: torch.Generator) -> None:
        """Learn the filters from patches of `images`, N x C x H x W, then the projections from changed copies."""
        filters, offset = _filters(self._patches(images, generator), len(self.filters), generator, self.ROUNDS)
        self.filters.copy_(filters)
        self.offset.copy_(offset)
        chosen = torch.randperm(len(images), generator=generator).repeat(math.ceil(self.COPIES / len(images)))
        copies = images[chosen[: self.COPIES].to(images.device)]
        answers = self.answers(turn_and_zoom(copies, generator))
        fields = answers.flatten(0, 1)
        _fill(self.field, _main_directions(fields - fields.mean(0), self.field.shape[1]))
        together = (answers @ self.field).flatten(1)
        self.centre.copy_(together.mean(0))
        _fill(self.projection, _main_directions(together - self.centre, self.width))

    def forward(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to N x width."""
        return ((self.answers(images) @ self.field).flatten(1) - self.centre) @ self.projection

    def answers(self, images: Tensor) -> Tensor:
        """Pixels of 0..255, N x C x H x W, to what the filters answer, N x GRID*GRID x 2*filters, of unit length."""
        fields = self._fields(images.device)
        sides = [(self.filters, fields)]
        if self.mirror:
            mirrored = self.filters.unflatten(1, (-1, self.side)).flip(2).flatten(1)
            sides.append((mirrored, fields.unflatten(0, (self.GRID, self.GRID)).flip(1).flatten(0, 1)))
        return torch.cat([self._part(part.to(torch.float32), sides) for part in images.split(32)])

    def _fields(self, device: torch.device) -> Tensor:
        """What every place of the filters counts in the mean over each field, GRID*GRID x places."""
        one_each = torch.eye(math.prod(self.places), device=device).unflatten(1, self.places)
        return functional.adaptive_avg_pool2d(one_each, self.GRID).flatten(1).T.contiguous()

    def _part(self, images: Tensor, sides: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The answers of a few images: the sum over sides, each of filters and their fields."""
        numbers = images.shape[1] * self.side**2
        mean = functional.avg_pool2d(images.mean(1, keepdim=True), self.side, self.stride)
        square = functional.avg_pool2d(images.square().mean(1, keepdim=True), self.side, self.stride)
        variance = (square - mean.square()).clamp_(min=0) * (numbers / (numbers - 1))
        patches = images.unfold(2, self.side, self.stride).unfold(3, self.side, self.stride).permute(0, 2, 3, 1, 4, 5)
        patches = (patches * (variance + self.CONTRAST).rsqrt_()[:, 0, :, :, None, None, None]).flatten(3).flatten(0, 2)
        total = images.new_zeros(())
        for filters, fields in sides:
            # Counted from the upper threshold, what is below the lower one is below -2 thresholds.
            answer = torch.addmm(-self.offset - self.THRESHOLD, patches, filters.T).unflatten(0, (-1, fields.shape[1]))
            above = fields @ answer.clamp(min=0)
            below = fields @ answer.clamp_(max=-2 * self.THRESHOLD) + 2 * self.THRESHOLD
            total = total + torch.cat([above, below.neg_()], 2).clamp_(min=0).sqrt_()
        return functional.normalize(total.flatten(1)).view_as(total)

    def _patches(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """At most `PATCHES` patches, drawn evenly from all images, each without its mean and of unit contrast."""
        down, across = (length - self.side + 1 for length in images.shape[-2:])
        drawn = torch.randperm(len(images) * down * across, generator=generator)[: self.PATCHES].to(images.device)
        image, place = drawn // (down * across), drawn % (down * across)
        reach = torch.arange(self.side, device=images.device)
        rows, columns = (place // across)[:, None] + reach, (place % across)[:, None] + reach
        patches = images.movedim(1, -1)[image[:, None, None], rows[:, :, None], columns[:, None]].movedim(-1, 1)
        patches = patches.flatten(1).to(torch.float32)
        patches = patches - patches.mean(1, keepdim=True)
        return patches / (patches.var(1, keepdim=True) + self.CONTRAST).sqrt()


def _filters(patches: Tensor, count: int, generator: torch.Generator, rounds: int) -> tuple[Tensor, Tensor]:
    """Spherical k-means of whitened patches, N x P: filters, count x P, for the patches as they are, and offsets."""
    mean = patches.mean(0)
    values, vectors = torch.linalg.eigh((patches - mean).T.cov(correction=0).double())
    whitening = ((vectors * (values + Dictionary.RIDGE).rsqrt()) @ vectors.T).to(patches.dtype)
    white = (patches - mean) @ whitening
    start = torch.randint(len(white), (count,), generator=generator)
    if count <= len(white):
        start = torch.randperm(len(white), generator=generator)[:count]
    centres = functional.normalize(white[start.to(white.device)])
    for _ in range(rounds):
        likeness, nearest = (white @ centres.T).max(1)
        total = torch.zeros_like(centres).index_add_(0, nearest, white * likeness[:, None])
        centres = functional.normalize(torch.where(total.any(1, keepdim=True), total, centres))
    filters = centres @ whitening
    # A patch is given with its mean, which a filter that sums to nothing does not see.
    return filters - filters.mean(1, keepdim=True), filters @ mean


def _fill(matrix: Tensor, columns: Tensor) -> None:
    """Put columns, as many as there are, into the first of a matrix, and 0 into the others."""
    matrix.zero_()[:, : columns.shape[1]] = columns


def _main_directions(rows: Tensor, count: int) -> Tensor:
    """The directions, P x at most `count`, in which the rows, N x P and centred, vary most; the last the most."""
    gram = (rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows).double()
    values, vectors = torch.linalg.eigh(gram)
    kept = slice(max(0, len(values) - count), None)
    large = values[kept] > 1e-6 * values[-1]
    values, vectors = values[kept][large], vectors[:, kept][:, large]
    directions: Tensor = rows.T.double() @ vectors / values.sqrt() if len(rows) < rows.shape[1] else vectors
    return directions.to(rows.dtype)
