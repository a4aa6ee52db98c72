"""The patch dictionary: a body made from a few images, without a label or a gradient."""

import math
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.core.settings import Settings
from protoreplay.encoders.registry import ImageShape

BATCH = 16
"""Images whose patches are looked at together: few enough for what they answer to stay in the processor's cache."""


def written_if_changed(default: float, **limits: Any) -> Any:
    """A setting that is written down only where it is not the default: older runs, without it, are the same runs."""
    return Field(default, exclude_if=lambda value: value == default, **limits)


class DictionarySettings(Settings):
    """Settings of a patch dictionary; all of them ours, chosen on validation streams."""

    filters: int = Field(160, ge=1)
    """Number of filters in the dictionary."""
    patch: int = Field(6, ge=2)
    """Side length of the dictionary's patches, in pixels."""
    mirror: bool = True
    """Whether an image and its mirror image have the same features."""
    latent: int = Field(850, ge=1)
    """Latent dimension: the width of the features and of the prototypes."""
    patch_count: int = written_if_changed(20_000, ge=1)
    """Maximum number of image patches that the filters are learned from."""
    contrast: float = written_if_changed(10.0, gt=0)
    """Constant added to the pixel variance of a patch when its contrast is normalised, so that nearly uniform patches
    stay small."""
    patch_ridge: float = written_if_changed(0.1, gt=0)
    """Ridge added to every eigenvalue of the patch covariance before whitening."""
    rounds: int = written_if_changed(15, ge=0)
    """Rounds of the k-means that learns the filters; with 0, filters are random patches."""
    threshold: float = Field(0.8, ge=0)
    """Threshold that a filter's response must exceed in absolute value."""
    grid: int = written_if_changed(3, ge=1)
    """Filter responses are averaged over `grid` x `grid` cells of the image."""
    field_width: int = Field(140, ge=1)
    """Maximum number of principal directions of the responses kept per cell."""
    copies: int = written_if_changed(1_000, ge=1)
    """Number of rotated and zoomed copies of the images from which the principal directions are computed."""


class PatchDictionary(nn.Module):
    """A convolutional dictionary, learned from patches of a few images without a label or a gradient.

    Filters are the centres of whitened patches. What a filter answers, divided by the contrast below it, is cut at a
    threshold on both sides, averaged over a grid of fields, square-rooted, and scaled to unit length. Two projections
    follow, both onto the directions in which changed copies of the images vary most: of the answers in every field, by
    one matrix for all fields, and of what all fields have then together.

    Args:
        shape: channels, height, width of the images.
        settings: of filters, fields and projections; a patch is no larger than an image.
    """

    filters: Tensor
    offset: Tensor
    field: Tensor
    centre: Tensor
    projection: Tensor

    def __init__(self, shape: ImageShape, settings: DictionarySettings) -> None:
        super().__init__()
        channels, height, across = shape
        self.settings, self.width = settings, settings.latent
        self.side = min(settings.patch, height, across)
        self.stride = max(1, min(height, across) // 16)
        self.places = [(length - self.side) // self.stride + 1 for length in (height, across)]
        filters, kept = settings.filters, min(settings.field_width, 2 * settings.filters)
        self.register_buffer("filters", torch.zeros(filters, channels * self.side**2))
        self.register_buffer("offset", torch.zeros(filters))
        self.register_buffer("field", torch.zeros(2 * filters, kept))
        self.register_buffer("centre", torch.zeros(kept * settings.grid**2))
        self.register_buffer("projection", torch.zeros(kept * settings.grid**2, self.width))

    @torch.no_grad()
    def fit(self, images: Tensor, generator: torch.Generator) -> None:
        """Learn the filters from patches of `images`, N x C x H x W, then the projections from changed copies."""
        filters, offset = _filters(self._patches(images, generator), self.settings, generator)
        self.filters.copy_(filters)
        self.offset.copy_(offset)
        chosen = torch.randperm(len(images), generator=generator).repeat(math.ceil(self.settings.copies / len(images)))
        copies = images[chosen[: self.settings.copies].to(images.device)]
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
        """Pixels of 0..255, N x C x H x W, to what the filters answer, N x grid*grid x 2*filters, of unit length."""
        filters, boxes = _even_and_odd_filters(self.filters, self.side), self._boxes(images)
        # Memory that is asked for anew for every few images costs as much as the arithmetic.
        places, answers = min(BATCH, len(images)) * math.prod(self.places), len(filters[0])
        widths = [filters[0].shape[1], filters[1].shape[1], answers, answers, answers]
        spaces = [self.filters.new_empty(places, width) for width in widths]
        return torch.cat([self._part(part.to(torch.float32), filters, boxes, spaces) for part in images.split(BATCH)])

    def _boxes(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What every row, H x down, and every column, W x across, of an image counts in the mean over each patch."""
        each = [torch.eye(length, device=images.device)[:, None] for length in images.shape[-2:]]
        down, across = (functional.avg_pool1d(line, self.side, self.stride)[:, 0] for line in each)
        return down, across

    def _part(
        self, images: Tensor, filters: tuple[Tensor, Tensor], boxes: tuple[Tensor, Tensor], spaces: list[Tensor]
    ) -> Tensor:
        """The answers of a few images by even and odd filters: the sum over an image and its mirror image.

        `spaces` are for the rows of both kinds of halves and for three answers of all places.
        """
        scale, threshold = self._scale(images, boxes), self.settings.threshold
        even, odd, answer, other, cut = (space[: scale.numel()] for space in spaces)
        for rows, halves in zip((even, odd), self._even_and_odd_columns(images), strict=True):
            self._cut(halves, scale, rows)
        # Counted from the upper threshold, what is below the lower one is below -2 thresholds.
        torch.addmm(-self.offset - threshold, even, filters[0].T, out=answer)
        torch.mm(odd, filters[1].T, out=other)
        # A filter answers with the sum of its even and odd halves, its mirror image with their difference.
        answer.add_(other)
        sides = [answer, torch.sub(answer, other, alpha=2, out=other)] if self.settings.mirror else [answer]
        total = images.new_zeros(())
        for number, side in enumerate(sides):
            above = self._fields(torch.clamp(side, min=0, out=cut))
            below = self._fields(side.clamp_(max=-2 * threshold)) + 2 * threshold
            both = torch.cat([above, below.neg_()], 3).clamp_(min=0).sqrt_()
            # A mirrored filter answers for the field on the other side.
            total = total + (both.flip(1) if number else both)
        total = total.transpose(1, 2).flatten(1, 2)
        return functional.normalize(total.flatten(1)).view_as(total)

    def _fields(self, answer: Tensor) -> Tensor:
        """Means over each field of answers, N*across*down x filters: N x grid x grid x filters, column by column."""
        places = answer.unflatten(0, (-1, *reversed(self.places))).permute(0, 3, 1, 2)
        return functional.adaptive_avg_pool2d(places, self.settings.grid).permute(0, 2, 3, 1)

    def _scale(self, images: Tensor, boxes: tuple[Tensor, Tensor]) -> Tensor:
        """What the patch at every place is multiplied by to be of unit contrast, N x across x down."""
        numbers = images.shape[1] * self.side**2
        grey = images - 127.5  # around it squares are smaller, and so is what rounding takes from their difference
        both = torch.stack([grey.mean(1), grey.square().mean(1)])
        mean, square = (both.transpose(2, 3) @ boxes[0]).transpose(2, 3) @ boxes[1]
        variance = (square - mean.square()).clamp_(min=0) * (numbers / (numbers - 1))
        scale: Tensor = (variance + self.settings.contrast).rsqrt_()
        return scale.transpose(1, 2)

    def _even_and_odd_columns(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Sums and differences of columns that mirror each other in a patch: N x across x H x half x C each."""
        columns = images.permute(0, 3, 2, 1).contiguous()
        count, _, height, channels = columns.shape
        half, reach = self.side // 2, self.stride * (self.places[1] - 1) + 1
        even = columns.new_empty(count, self.places[1], height, self.side - half, channels)
        odd = columns.new_empty(count, self.places[1], height, half, channels)
        for nearer in range(half):
            farther = self.side - 1 - nearer
            left, right = (columns[:, at : at + reach : self.stride] for at in (nearer, farther))
            torch.add(left, right, out=even[..., nearer, :])
            torch.sub(left, right, out=odd[..., nearer, :])
        if self.side % 2:
            even[..., half, :] = columns[:, half : half + reach : self.stride]
        return even, odd

    def _cut(self, halves: Tensor, scale: Tensor, rows: Tensor) -> None:
        """Cut halves of columns, N x across x H x half x C, into patches of unit contrast, one for each of the rows."""
        # Rows of an image follow each other, so a patch is one piece of memory, copied and scaled in one go.
        numbers = halves.shape[3] * halves.shape[4]
        patches = halves.flatten(2).unfold(2, self.side * numbers, self.stride * numbers)
        torch.mul(patches, scale[..., None], out=rows.view_as(patches))

    def _patches(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """At most `patch_count` patches, drawn evenly from all images, each without its mean and of unit contrast."""
        down, across = (length - self.side + 1 for length in images.shape[-2:])
        order = torch.randperm(len(images) * down * across, generator=generator)
        drawn = order[: self.settings.patch_count].to(images.device)
        image, place = drawn // (down * across), drawn % (down * across)
        reach = torch.arange(self.side, device=images.device)
        rows, columns = (place // across)[:, None] + reach, (place % across)[:, None] + reach
        patches = images.movedim(1, -1)[image[:, None, None], rows[:, :, None], columns[:, None]].movedim(-1, 1)
        patches = patches.flatten(1).to(torch.float32)
        patches = patches - patches.mean(1, keepdim=True)
        return patches / (patches.var(1, keepdim=True) + self.settings.contrast).sqrt()


def _even_and_odd_filters(filters: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Filters, F x C*side*side, as the sum of one that its mirror image equals and one that it is the negative of.

    Half of the columns tell all of either, so that a filter and its mirror image together cost what one of them would:
    F x side*half*C each, row by row. Of an odd side, the even half has the column in the middle.
    """
    columns = filters.unflatten(1, (-1, side, side)).permute(0, 2, 3, 1)
    half = side // 2
    left, middle, right = columns[:, :, :half], columns[:, :, half : side - half], columns[:, :, side - half :].flip(2)
    return torch.cat([(left + right) / 2, middle], 2).flatten(1), ((left - right) / 2).flatten(1)


def _filters(patches: Tensor, settings: DictionarySettings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Spherical k-means of whitened patches, N x P: filters, F x P, for the patches as they are, and offsets, F."""
    mean, count = patches.mean(0), settings.filters
    values, vectors = torch.linalg.eigh((patches - mean).T.cov(correction=0).double())
    whitening = ((vectors * (values + settings.patch_ridge).rsqrt()) @ vectors.T).to(patches.dtype)
    white = (patches - mean) @ whitening
    start = torch.randint(len(white), (count,), generator=generator)
    if count <= len(white):
        start = torch.randperm(len(white), generator=generator)[:count]
    centres = functional.normalize(white[start.to(white.device)])
    for _ in range(settings.rounds):
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
