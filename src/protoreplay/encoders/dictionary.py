"""The patch dictionary: a body made from a few images, without a label or a gradient."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.encoders.registry import ImageShape


class PatchDictionary(nn.Module):
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
    whitening = ((vectors * (values + PatchDictionary.RIDGE).rsqrt()) @ vectors.T).to(patches.dtype)
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


def turn_and_zoom(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image turned by up to half a radian, zoomed by up to 0.3 and moved by up to a tenth of its side: float32."""
    count = len(images)
    drawn = 2 * torch.rand(4, count, generator=generator) - 1
    angle, zoom, move = 0.5 * drawn[0], 1 + 0.3 * drawn[1], 0.2 * drawn[2:].T
    sine, cosine = zoom * angle.sin(), zoom * angle.cos()
    rows = torch.stack([torch.stack([cosine, -sine], 1), torch.stack([sine, cosine], 1)], 1)
    grid = functional.affine_grid(torch.cat([rows, move[:, :, None]], 2), list(images.shape), align_corners=False)
    return functional.grid_sample(
        images.float(), grid.to(images.device), padding_mode="reflection", align_corners=False
    )
