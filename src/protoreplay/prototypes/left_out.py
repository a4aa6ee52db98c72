"""Leaving out what was learned: how images compare with the classes as if they, or their whole group, were not known.

What belongs together (an image and its views, photos that are almost the same) is left out together: it is gone from
the mean of its class, from the centre of all classes and from the shared covariance. All of it follows from products
with the inverse covariance that is there already, by the formula of Woodbury: nothing is fitted anew.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protoreplay.prototypes.covariance import RidgeInverse
from protoreplay.prototypes.sums import Floats, Rows


class LeftOutGroups(NamedTuple):
    """Groups of one class each, all of one size.

    Attributes:
        queries: G x Q x D: images of each group, from the centre of all classes.
        pulls: G x D: by how much each group has moved the mean of its class.
        added: G x R x D: rows whose products each group has added to the scatter.
        removed: G: degrees of freedom that go with each group.
        owners: int64, G: the class of each.
    """

    queries: Floats
    pulls: Floats
    added: Floats
    removed: Floats
    owners: npt.NDArray[np.int64]


class LeftOutProducts(NamedTuple):
    """Products with the inverse covariance without the group, of images and prototypes seen from the centre without it.

    Attributes:
        cross: G x Q x K: of an image with each prototype.
        squares: G x K: of each prototype with itself.
        lengths: G x Q: of an image with itself.
    """

    cross: Floats
    squares: Floats
    lengths: Floats


def left_out_products(
    groups: LeftOutGroups, prototypes: Floats, inverse: RidgeInverse, freedom: float, turned: Rows | None = None
) -> LeftOutProducts:
    """What products would be had each group not been learned, with the same ridge on the scatter.

    Args:
        groups: what is left out.
        prototypes: means of the classes from their centre, K x D.
        inverse: of the covariance with its ridge.
        freedom: degrees of freedom of the covariance.
        turned: prototypes times the inverse, where they are known already.
    """
    count, owners = len(prototypes), groups.owners
    own = np.arange(len(owners)), owners
    turned = inverse.times(prototypes) if turned is None else turned
    pulled, rows = inverse.times(groups.pulls), groups.added / np.sqrt(max(freedom, 1.0))
    bent = inverse.times(rows)
    with_pull = np.einsum("grd,gd->gr", bent, groups.pulls)
    pull_square = np.einsum("gd,gd->g", pulled, groups.pulls)
    query_pull = np.einsum("gqd,gd->gq", groups.queries, pulled)
    pull_cross = _products(groups.pulls[:, None], turned)[:, 0]

    # The centre moves by the K-th part of the pull, the class itself by all of it.
    cross = _products(groups.queries, turned) + (query_pull[:, :, None] + pull_cross[:, None]) / count
    cross += (pull_square / count**2)[:, None, None]
    cross[own[0], :, owners] -= query_pull + (pull_square / count)[:, None]
    squares = np.einsum("kd,kd->k", turned, prototypes) + 2 * pull_cross / count + (pull_square / count**2)[:, None]
    squares[own] += pull_square * (1 - 2 / count) - 2 * pull_cross[own]
    lengths = inverse.lengths(groups.queries) + 2 * query_pull / count + (pull_square / count**2)[:, None]
    along = _products(rows, turned) + with_pull[:, :, None] / count
    along[own[0], :, owners] -= with_pull
    toward = np.einsum("gqd,grd->gqr", groups.queries, bent) + with_pull[:, None] / count

    left = np.eye(rows.shape[1]) - np.einsum("grd,gsd->grs", bent, rows)
    solved = np.linalg.solve(left, along)
    cross += toward @ solved
    squares += np.einsum("grk,grk->gk", along, solved)
    lengths += np.einsum("gqr,gqr->gq", toward, np.linalg.solve(left, toward.swapaxes(1, 2)).swapaxes(1, 2))
    scale = np.maximum(freedom - groups.removed, 1.0) / max(freedom, 1.0)
    return LeftOutProducts(cross * scale[:, None, None], squares * scale[:, None], lengths * scale[:, None])


def _products(groups: Floats, rows: Rows) -> Rows:
    """Of all of G x Q x D with all of K x D, G x Q x K, as one product: one for each group reads all rows each time."""
    every = groups.reshape(-1, groups.shape[2]).astype(rows.dtype, copy=False)
    return (every @ rows.T).reshape(*groups.shape[:2], len(rows))
