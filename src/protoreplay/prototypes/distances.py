"""Distances between Gaussians, their samples and points, all as matrix products.

Nothing of size images x classes x dim is ever made. A leading dimension (Z samples) is batched.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from protoreplay.prototypes.gaussians import Gaussian


def squared_distances(x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Squared Euclidean distance of every row of `x` to every row of `y`, each dimension times `weight`.

    Args:
        x: N x D, or Z x N x D.
        y: K x D, or Z x K x D.
        weight: None (all 1) or K x D, positive: `sum_d weight[k, d] * (x[n, d] - y[k, d]) ** 2`.

    Returns:
        N x K, or Z x N x K; never negative. Values within rounding error of 0 are 0 with gradient 0, so that a
        square root after this has a finite gradient everywhere.
    """
    # Around the centre of y the terms that cancel are as small as they can be; the centre drops out of the result.
    centre = y.detach().mean(-2, keepdim=True)
    x, y = x - centre, y - centre
    y_term = y.square() if weight is None else weight * y.square()
    return _expand(x, y if weight is None else weight * y, y_term.sum(-1)[..., None, :], weight)


def moments(x: Gaussian, centre: Tensor) -> Tensor:
    """What expected squared distances are linear in: of every row its second moments and its mean, from `centre`.

    Args:
        x: N x D.
        centre: D.

    Returns:
        N x 2 D.
    """
    mean = x.mean - centre
    return torch.cat([torch.addcmul(x.logvar.exp(), mean, mean), mean], 1)


class Landmarks(NamedTuple):
    """Gaussians as the linear map from the `moments` of others to the expected squared distances between both.

    Attributes:
        matrix: K x 2 D.
        offset: K: the expected squared distance of each to the centre of the moments.
    """

    matrix: Tensor
    offset: Tensor

    @classmethod
    def of(cls, y: Gaussian, centre: Tensor, weight: Tensor | None = None) -> Self:
        """Of `y`, K x D, for moments from `centre`, D; each dimension of a distance times `weight`, None or K x D."""
        mean = y.mean - centre
        weight = torch.ones_like(mean) if weight is None else weight
        offset = (weight * torch.addcmul(y.logvar.exp(), mean, mean)).sum(1)
        return cls(torch.cat([weight, -2 * weight * mean], 1), offset)

    def squared_distances(self, moments: Tensor) -> Tensor:
        """N x K, of `moments`, N x 2 D."""
        return _beyond_rounding(functional.linear(moments, self.matrix, self.offset), self.offset)


def expected_squared_distances(
    x: Gaussian, y: Gaussian, weight: Tensor | None = None, centre: Tensor | None = None
) -> Tensor:
    """The expectation of `squared_distances` between independent samples of `x` and of `y`, in closed form.

    It is the squared distance of the means plus both variances, each dimension times `weight`.

    Args:
        x: N x D.
        y: K x D.
        weight: None or K x D.
        centre: D, any point near both, from which rounding is least; None for that of the means of `y`.

    Returns:
        N x K.
    """
    centre = y.mean.detach().mean(0) if centre is None else centre
    return Landmarks.of(y, centre, weight).squared_distances(moments(x, centre))


def sampled_squared_distances(
    x: Tensor, y: Gaussian, noise: Tensor, weight: Tensor | None = None, noise_rows: Tensor | None = None
) -> Tensor:
    """`squared_distances` between sample z of something and sample z of `y`.

    Args:
        x: samples, Z x N x D.
        y: K x D.
        noise: of the samples of `y`, Z x K x D, and used up.
        weight: None or K x D.
        noise_rows: None, or int64, K: the row of `noise` that each row of `y` takes; several may share one.

    Returns:
        Z x N x K.
    """
    if noise_rows is not None:
        noise = noise.index_select(1, noise_rows)
    if y.mean.requires_grad or y.logvar.requires_grad:
        return squared_distances(x, y.sample(noise), weight)
    # Samples of constants can be made in place: fresh memory for them takes longer than the arithmetic.
    # With the root of the weight in a sample, its squared length is the whole term of y.
    centre = y.mean.mean(0)
    root = torch.ones(()) if weight is None else weight.sqrt()
    ys = noise.mul_(root * (0.5 * y.logvar).exp()).add_(root * (y.mean - centre))
    y_term = torch.linalg.vector_norm(ys, dim=-1).square_()[:, None]
    return _expand(x - centre, ys if weight is None else ys.mul_(root), y_term, weight)


def common_noise_squared_distances(x: Gaussian, y: Tensor, noise: Tensor) -> Tensor:
    """`squared_distances` of samples of `x`, where sample z has one noise for all rows; they are never made.

    A sample `m + s * e` is linear in (m, s), so all distances are one matrix product of (m, s) with (y, e * y).

    Args:
        x: N x D.
        y: samples, Z x K x D.
        noise: e, Z x D.

    Returns:
        Z x N x K, for answers: unlike there, a square root after this may have an infinite gradient.
    """
    centre = y.mean((0, 1))
    mean, deviation, y = x.mean - centre, (0.5 * x.logvar).exp(), y - centre
    both = torch.cat([y, noise[:, None] * y], -1).flatten(0, 1)
    crossed = (torch.cat([mean, deviation], 1) @ both.T).unflatten(1, y.shape[:2]).movedim(1, 0)
    x_term = mean.square().sum(1) + 2 * noise @ (mean * deviation).T + noise.square() @ deviation.square().T
    squared: Tensor = x_term[..., None] + y.square().sum(-1)[:, None] - 2 * crossed
    return squared.clamp_(min=0)


def _expand(x: Tensor, y: Tensor, y_term: Tensor, weight: Tensor | None) -> Tensor:
    """`weight * x * x - 2 * x * y`, summed over D, plus `y_term`.

    Args:
        x: ... x N x D.
        y: ... x K x D, times `weight`.
        y_term: ... x 1 x K.
        weight: None (all 1) or K x D.
    """
    if weight is None:
        result = (-2 * x) @ y.mT
        result += x.square().sum(-1, keepdim=True)
    else:
        result = x.square() @ weight.mT
        add_product = result.addmm_ if x.ndim == 2 else result.baddbmm_
        add_product(x, y.mT, alpha=-2)
    result += y_term
    return _beyond_rounding(result, y_term)


def _beyond_rounding(squared: Tensor, y_term: Tensor) -> Tensor:
    """`squared`, in place, with 0 and gradient 0 where it is nothing but the rounding of terms that cancel.

    Where terms cancel, that of x is as large as that of y.
    """
    values, rounding = squared.detach(), 16 * torch.finfo(squared.dtype).eps * y_term.detach()
    # The smallest of a column tells, at the cost of one look, that there is nothing to fill in.
    if values.numel() == 0 or (values.amin(-2, keepdim=True) > rounding).all():
        return squared
    return squared.masked_fill_(values <= rounding, 0.0)


def clusters(x: Tensor, count: int, generator: torch.Generator, rounds: int = 10) -> tuple[Tensor, Tensor]:
    """Several prototypes of one class: k-means.

    Args:
        x: N x D.
        count: number of prototypes K, at most N.
        generator: draws the rows to start from.
        rounds: of assignment and averaging.

    Returns:
        The means, K x D, and the nearest one of each row, int64, N.
    """
    if count == 1:
        return x.mean(0, keepdim=True), torch.zeros(len(x), dtype=torch.int64, device=x.device)
    means = x[torch.randperm(len(x), generator=generator)[:count].to(x.device)]
    for _ in range(rounds):
        member = functional.one_hot(squared_distances(x, means).argmin(1), count).to(x.dtype)
        size = member.sum(0)[:, None]
        means = torch.where(size > 0, member.T @ x / size.clamp(min=1), means)
    return means, squared_distances(x, means).argmin(1)
