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
    """Filters of the dictionary."""
    patch: int = Field(6, ge=2)
    """Side of the dictionary's patches."""
    mirror: bool = True
    """Whether the dictionary gives an image and its mirror image the same features."""
    latent: int = Field(850, ge=1)
    """Latent dimension: width of the features, and of what stands on them."""
    patch_count: int = written_if_changed(20_000, ge=1)
    """Patches of the images, at most, that filters are made of."""
    contrast: float = written_if_changed(10.0, gt=0)
    """Added to the variance of a patch's pixels before the patch is divided by its root: what is nearly of one colour
    stays small."""
    patch_ridge: float = written_if_changed(0.1, gt=0)
    """Added to every eigenvalue of the patches' covariance before they are whitened."""
    rounds: int = written_if_changed(15, ge=0)
    """Rounds of the k-means that makes filters; with 0 they are random patches."""
    threshold: float = Field(0.8, ge=0)
    """What a filter's answer must exceed, on either side, to count."""
    grid: int = written_if_changed(3, ge=1)
    """Answers are averaged over `grid` x `grid` fields of the image."""
    field_width: int = Field(140, ge=1)
    """Directions of the answers, at most, that are kept of each field."""
    copies: int = written_if_changed(1_000, ge=1)
    """Turned and zoomed copies of the images in which the directions that are kept vary most."""


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
        filters, fields = _even_and_odd_filters(self.filters, self.side), self._fields(images.device)
        return torch.cat([self._part(part.to(torch.float32), filters, fields) for part in images.split(BATCH)])

    def _fields(self, device: torch.device) -> list[Tensor]:
        """What every place counts in the mean over each field, grid*grid x places, column by column.

        Once, or where the dictionary mirrors twice: a mirrored filter answers for the field on the other side.
        """
        one_each = torch.eye(math.prod(self.places), device=device).unflatten(1, self.places)
        shares = functional.adaptive_avg_pool2d(one_each, self.settings.grid).unflatten(0, self.places).transpose(0, 1)
        sides = [shares, shares.flip(-1)] if self.settings.mirror else [shares]
        return [side.flatten(2).flatten(0, 1).T.contiguous() for side in sides]

    def _part(self, images: Tensor, filters: tuple[Tensor, Tensor], fields: list[Tensor]) -> Tensor:
        """The answers of a few images by even and odd filters: the sum over sides, each with its fields."""
        scale = self._scale(images)
        even, odd = (self._rows(columns, scale) for columns in _even_and_odd_columns(images, self.side, self.stride))
        threshold = self.settings.threshold
        # Counted from the upper threshold, what is below the lower one is below -2 thresholds.
        answer, other = torch.addmm(-self.offset - threshold, even, filters[0].T), odd @ filters[1].T
        # A filter answers with the sum of its even and odd halves, its mirror image with their difference.
        answers = [answer.add_(other), torch.sub(answer, other, alpha=2)][: len(fields)]
        total = images.new_zeros(())
        for answer, shares in zip(answers, fields, strict=True):
            answer = answer.unflatten(0, (-1, shares.shape[1]))
            above = shares @ answer.clamp(min=0)
            below = shares @ answer.clamp_(max=-2 * threshold) + 2 * threshold
            total = total + torch.cat([above, below.neg_()], 2).clamp_(min=0).sqrt_()
        return functional.normalize(total.flatten(1)).view_as(total)

    def _scale(self, images: Tensor) -> Tensor:
        """What the patch at every place is multiplied by to be of unit contrast, N x across x down."""
        numbers = images.shape[1] * self.side**2
        mean = functional.avg_pool2d(images.mean(1, keepdim=True), self.side, self.stride)
        square = functional.avg_pool2d(images.square().mean(1, keepdim=True), self.side, self.stride)
        variance = (square - mean.square()).clamp_(min=0) * (numbers / (numbers - 1))
        return (variance + self.settings.contrast).rsqrt_()[:, 0].transpose(1, 2)

    def _rows(self, columns: Tensor, scale: Tensor) -> Tensor:
        """Columns of patches, N x across x C x columns x H, cut into patches of unit contrast, a row each."""
        patches = columns.unfold(4, self.side, self.stride).permute(0, 1, 4, 2, 3, 5).contiguous()
        return patches.mul_(scale[..., None, None, None]).flatten(3).flatten(0, 2)

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
    F x C*half*side each, column by column. Of an odd side, the even half has the column in the middle.
    """
    columns = filters.unflatten(1, (-1, side, side)).transpose(2, 3)
    half = side // 2
    left, middle, right = columns[:, :, :half], columns[:, :, half : side - half], columns[:, :, side - half :].flip(2)
    return torch.cat([(left + right) / 2, middle], 2).flatten(1), ((left - right) / 2).flatten(1)


def _even_and_odd_columns(images: Tensor, side: int, stride: int) -> tuple[Tensor, Tensor]:
    """Sums and differences of columns that mirror each other in a patch: N x across x C x half x H each."""
    columns = images.transpose(2, 3).contiguous().unfold(2, side, stride).permute(0, 2, 1, 4, 3)
    half = side // 2
    left, right = columns[:, :, :, :half], columns[:, :, :, side - half :].flip(3)
    return torch.cat([left + right, columns[:, :, :, half : side - half]], 3).contiguous(), (left - right).contiguous()


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
