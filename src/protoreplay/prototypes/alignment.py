"""Inputs that come back in another order: which dimension of new images is which of the old ones.

A dimension is known by its prototypes: what it is on average, and how much it varies, in each class. A handful of
images of each class is enough to tell most dimensions apart.
"""

import torch
from torch import Tensor

FLOOR = 1e-4
"""Added to variances, in units of images of length one, so that no dimension is certain."""


def likeliest_order(x: Tensor, groups: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """The order in which `x` looks most like the prototypes: `x[:, order]` has their dimensions.

    The order that makes the images likeliest, each dimension a Gaussian around the mean of the image's class.

    Args:
        x: N x D, features of images.
        groups: int64, N: the row of `means` that an image belongs to.
        means: K x D.
        variances: D, of a dimension around the means.

    Returns:
        int64, D, a permutation.
    """
    # Late, because it takes most of a second and few streams need it.
    from scipy.optimize import linear_sum_assignment

    expected, spread = means[groups].double(), variances.double() + FLOOR
    x = x.double()
    # Row i, column j: what it costs if dimension i of x is dimension j of the prototypes.
    squares = x.square().sum(0)[:, None] - 2 * x.T @ expected + expected.square().sum(0)
    cost = squares / (2 * spread) + len(x) / 2 * spread.log()
    own, theirs = linear_sum_assignment(cost.cpu().numpy())
    order = torch.empty(len(own), dtype=torch.int64)
    order[torch.from_numpy(theirs)] = torch.from_numpy(own)
    return order.to(x.device)
