"""Which features are of almost the same picture: photos of one burst, crops of one photo."""

import numpy as np
import numpy.typing as npt

from protoreplay.prototypes.sums import ClassSums, Keys, Labels, Rows

NEAR = 0.12
"""Squared distance between features of unit length up to which two are almost the same. On mini-ImageNet's training
images, jittered crops of one photo lie nearer to another crop of it than this in 98 of 100 cases, two photos of one
class in fewer than 1 of 100."""
ALIKE = 8
"""Bits of 64 by which two perceptual hashes may differ and still be of almost the same picture."""


def near_duplicate_groups(rows: Rows, looks: Keys, near: float | None = NEAR) -> Labels:
    """A number for each of N features, the same for those that are almost the same, directly or through others.

    Args:
        rows: N x D, of unit length.
        looks: uint64, N: a perceptual hash each; 0 where none is known.
        near: squared distance up to which two are almost the same; None where only hashes tell.
    """
    if len(rows) < 2:
        return np.arange(len(rows))
    different = np.bitwise_count(looks[:, None] ^ looks)
    linked = (different <= ALIKE) & (looks != 0) & (looks != 0)[:, None]
    np.fill_diagonal(linked, True)  # whatever rounding says
    if near is None:
        return _components(linked)
    x = rows.astype(np.float64)
    squares = np.square(x).sum(1)
    distances = squares[:, None] + squares - 2 * x @ x.T
    found = _components(linked | (distances <= near))
    if 2 * len(np.unique(found)) > len(found):
        return found
    # Where most are almost the same, those that are nearly so are of the same pictures too.
    return _components(linked | (distances <= 2 * near))


def class_groups(member: ClassSums, near: float | None) -> Labels:
    """The groups of the features of a class that are kept singly; found once for each class that does not change."""
    known = member.groups_by_nearness
    if near not in known:
        known[near] = near_duplicate_groups(member.rows, member.looks, near)
    return known[near]


def _components(linked: npt.NDArray[np.bool_]) -> Labels:
    """The lowest index that each can be reached from: spread until nothing changes."""
    found = np.arange(len(linked))
    while True:
        lowest = np.where(linked, found, len(linked)).min(1, initial=len(linked))
        if np.array_equal(lowest, found):
            return found
        found = lowest
