"""Learned classes, and every group of their features left out in turn."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protoreplay.prototypes.covariance import CovarianceKind, RidgeInverse, SharedCovariance
from protoreplay.prototypes.left_out import LeftOutGroups, left_out_products
from protoreplay.prototypes.near_duplicates import class_groups
from protoreplay.prototypes.sums import ClassSums, Floats, Keys, Labels, Rows

BACKGROUND = 0.4
"""Share of the distance from the centre of all classes that an image is forgiven: what is odd in every respect is far
from all classes, and no news; chosen on training images (docs/photos.md)."""
MOST_ASKED, FEWEST_ASKED = 1000, 100
"""Features that are left out at most: fewer, the more classes they are compared with."""


class LeftOutScores(NamedTuple):
    """How N learned features compare with all classes once they are left out.

    Attributes:
        cross: products with prototypes, N x K.
        squares: of prototypes with themselves, N x K, less what few features add to them.
        lengths: products of features with themselves, N.
        owners: int64, N: their classes.
        keys: uint64, N.
        votes: N: features that are almost the same have one vote together.
        noise: squared distance of an image from the true mean of its class, on average.
    """

    cross: Floats
    squares: Floats
    lengths: Floats
    owners: npt.NDArray[np.int64]
    keys: Keys
    votes: Floats
    noise: float

    def scores(self, shrink: float) -> Floats:
        """N x K, with prototypes shrunk to their centre."""
        return self.cross - shrink / 2 * self.squares

    def familiarity(self) -> Floats:
        """N: minus the squared distance from the nearest class, plus the part of that from the centre forgiven."""
        return (2 * self.cross - self.squares).max(1) - (1 - BACKGROUND) * self.lengths  # type: ignore[no-any-return]


class _Group(NamedTuple):
    """One group: its class, its features among those of the class, what each of them counts, and what will be left.

    Attributes:
        owner: the class.
        places: which of the features that are kept singly.
        votes: of each.
        share: of the class, that goes with the group.
        remaining: features of the class that differ, without it.
    """

    owner: int
    places: Labels
    votes: Floats
    share: float
    remaining: float


class _Batch(NamedTuple):
    """Groups of one size, the key and the vote of each query, G x Q, and what is left of each class, G."""

    groups: LeftOutGroups
    keys: Keys
    votes: Floats
    remaining: Floats


class LeaveOutPlan(NamedTuple):
    """All groups that can be left out, by their size, and what they are compared with.

    Attributes:
        batches: groups of one size each.
        prototypes: means of the classes from their centre, K x D.
        counts: features of each class that differ, K.
        freedom: degrees of freedom of the covariance.
    """

    batches: Sequence[_Batch]
    prototypes: Floats
    counts: Floats
    freedom: float

    def carried_out(
        self,
        inverse: RidgeInverse | Callable[[float], RidgeInverse],
        covariance_stays: bool = False,
        noise: float | None = None,
        turned: Rows | None = None,
    ) -> LeftOutScores | None:
        """What is found; None where nothing can be left out.

        Args:
            inverse: of the covariance with its ridge; or what gives it with a number of such ridges. A ridge on the
                scatter of all would be larger on the covariance of what is left: by a fifth where five degrees of
                freedom of six are. With the latter it is the same.
            covariance_stays: features are not taken out of the covariance.
            noise: where it is known already.
            turned: prototypes times the inverse, where they are known already.
        """
        if not self.batches:
            return None
        parts = []
        for groups, keys, votes, remaining in self.batches:
            kept = groups._replace(added=groups.added[:, :0], removed=0 * remaining) if covariance_stays else groups
            left = max(self.freedom - kept.removed.mean(), 1.0) / max(self.freedom, 1.0)
            own_inverse = inverse if isinstance(inverse, RidgeInverse) else inverse(left)
            found = left_out_products(kept, self.prototypes, own_inverse, self.freedom, turned)
            by_query = (np.repeat(one, votes.shape[1], 0) for one in (found.squares, groups.owners, remaining))
            cross = found.cross.reshape(-1, len(self.counts))
            parts.append((cross, found.lengths.ravel(), keys.ravel(), votes.ravel(), *by_query))
        cross, lengths, keys, votes, squares, owners, remaining = (np.concatenate(p) for p in zip(*parts, strict=True))
        own = np.arange(len(owners)), owners
        if noise is None:
            # From a mean of n features, an image is farther than from the true mean by the n-th part of its noise.
            distances = (lengths - 2 * cross[own] + squares[own]) * remaining / (remaining + 1)
            noise = float(votes @ distances / votes.sum())
        squares = squares - noise / self.counts
        squares[own] += noise / self.counts[owners] - noise / remaining
        return LeftOutScores(cross, squares, lengths, owners, keys, votes, noise)


@dataclass(frozen=True, eq=False)
class TaughtClasses:
    """Learned classes, K, and what they share.

    Attributes:
        members: the classes.
        groups: of each, the group of every feature that is kept singly.
        centre: the mean of all means, D, rounded to 32 bits, which answers are computed with.
        prototypes: the means from there, K x D.
        covariance: within classes.
    """

    members: Sequence[ClassSums]
    groups: Sequence[Labels]
    centre: Floats
    prototypes: Floats
    covariance: SharedCovariance

    @classmethod
    def of(
        cls, members: Sequence[ClassSums], near: float | None, covariance: SharedCovariance | None = None
    ) -> "TaughtClasses":
        """Of classes; `near` as in `near_duplicate_groups`, and the covariance where it is known already."""
        means = np.stack([member.mean for member in members])
        shared = covariance or SharedCovariance.of_classes(members, means.shape[1])
        centre = means.mean(0).astype(np.float32).astype(np.float64)
        means -= centre
        return cls(members, [class_groups(member, near) for member in members], centre, means, shared)

    @functools.cached_property
    def effective_counts(self) -> Floats:
        """How many features that differ each class has, K; those not kept singly differ in the same share."""
        pairs = zip(self.members, self.groups, strict=True)
        return np.array([_differing(member, labels) for member, labels in pairs])

    def level(self) -> float:
        """What a ridge of 1 adds: the mean eigenvalue of the covariance, or a guess where nothing has varied yet.

        The guess is that images of a class differ as much as classes do.
        """
        known = self.covariance.mean_eigenvalue()
        return known or float(np.square(self.prototypes).mean()) or 1 / self.prototypes.shape[1]

    def inverse(self, ridge: float, kind: CovarianceKind = "full") -> RidgeInverse:
        """Of the covariance with so many mean eigenvalues added in every direction."""
        return self.covariance.inverse(ridge * self.level(), kind)

    def directions(self, ridge: float, kind: CovarianceKind = "full") -> Rows:
        """The prototypes times that inverse, K x D; the last ones are remembered."""
        if (ridge, kind) not in self._last:
            self._last.clear()
            self._last[ridge, kind] = self.inverse(ridge, kind).times(self.prototypes)
        return self._last[ridge, kind]

    @functools.cached_property
    def _last(self) -> dict[tuple[float, CovarianceKind], Rows]:
        return {}

    def plan(self, keys: Keys | None = None) -> LeaveOutPlan:
        """Of all that can be left out, or of the groups that have any of `keys`."""
        return self._plan(lambda owner: self.members[owner].apart, self.prototypes, keys)

    def plan_in_main_directions(self) -> tuple[LeaveOutPlan, Floats]:
        """The same in coordinates in which the covariance is diagonal, and its variances there.

        Beside its eigenvectors, prototypes need at most K directions more.
        """
        values, vectors, coordinates = self.covariance.spectrum
        inside = self.prototypes @ vectors.T
        beside, turn = np.linalg.eigh(self.prototypes @ self.prototypes.T - inside @ inside.T)
        outside = turn * np.sqrt(np.maximum(beside, 0))
        wider = ((0, 0), (0, len(outside)))
        aparts, row = [], 0
        for member in self.members:
            apart, roots, end = member.apart, np.sqrt(member.weights)[:, None], row + len(member.keys)
            # Of rows that are those of the classes in their order, the products are known already.
            if len(coordinates) and np.array_equal(self.covariance.rows[row:end], roots * apart) and roots.all():
                place = coordinates[row:end] / roots
            else:
                place = apart @ vectors.T
            row += member.scatter_size
            aparts.append(np.pad(place, wider))
        even = self.covariance.even / max(self.covariance.freedom, 1.0)
        return self._plan(aparts.__getitem__, np.concatenate([inside, outside], 1)), np.pad(values, wider[1]) + even

    def _plan(self, apart_of: Callable[[int], Floats], prototypes: Floats, keys: Keys | None = None) -> LeaveOutPlan:
        """With the features of each class, from its mean."""
        counts = self.effective_counts
        by_size: dict[int, list[_Group]] = {}
        for group in self._asked(counts, keys):
            by_size.setdefault(len(group.places), []).append(group)
        batches = []
        for _, some in sorted(by_size.items()):
            owners = np.array([group.owner for group in some])
            apart = np.stack([apart_of(group.owner)[group.places] for group in some])
            weights = np.stack([self.members[group.owner].weights[group.places] for group in some])
            totals = np.array([self.members[owner].count for owner in owners])
            shares = np.array([group.share for group in some])
            removed = weights.sum(1)
            pulls = np.einsum("gq,gqd->gd", weights, apart) / removed[:, None] * (shares / (1 - shares))[:, None]
            groups = LeftOutGroups(
                apart + prototypes[owners][:, None], pulls, _added_rows(apart, weights, totals), removed, owners
            )
            votes = np.stack([group.votes for group in some])
            named = np.stack([self.members[group.owner].keys[group.places] for group in some])
            batches.append(_Batch(groups, named, votes, np.array([group.remaining for group in some])))
        return LeaveOutPlan(batches, prototypes, counts, self.covariance.freedom)

    def _asked(self, counts: Floats, keys: Keys | None) -> list[_Group]:
        """The groups that can be left out: of the lowest keys, in whatever order features came."""
        most = max(FEWEST_ASKED, min(MOST_ASKED, 1000 * MOST_ASKED // len(self.members)))
        found: list[tuple[int, _Group]] = []
        # No group of a class has a lower key than the class.
        for owner in sorted(range(len(self.members)), key=lambda owner: self.members[owner].keys[0]):
            member, labels = self.members[owner], self.groups[owner]
            if len(found) >= most and found[-1][0] < member.keys[0]:
                found.sort(key=_by_key)
                if found[most - 1][0] < member.keys[0]:
                    break
            if member.others.weight and 2 * len(np.unique(labels)) <= len(labels):
                continue  # what is almost the same is also among the others, and cannot be taken out of them
            votes = _votes(member, labels)
            for label in np.unique(labels if keys is None else labels[np.isin(member.keys, keys)]):
                places = np.flatnonzero(labels == label)
                # Of features like these there are as many among those that are not kept singly.
                among = member.weights.sum() if len(places) > 1 else member.count
                share = float(member.weights[places].sum() / among)
                remaining = float(
                    counts[owner] - votes[places].sum() * (member.count / among if len(places) > 1 else 1)
                )
                if share < 1 - 1e-9 and remaining > 1e-9 and member.weights[places].all():
                    found.append((int(member.keys[places[0]]), _Group(owner, places, votes[places], share, remaining)))
        found.sort(key=_by_key)
        sizes = np.cumsum([len(group.places) for _, group in found]) if found else np.zeros(0)
        return [group for (_, group), size in zip(found, sizes, strict=True) if size <= most]


def _by_key(found: tuple[int, _Group]) -> tuple[int, int]:
    return found[0], found[1].owner


def _differing(member: ClassSums, labels: Labels) -> float:
    """The weight of the features of a class, but groups count as one of their features."""
    if labels.sum() == len(labels) * (len(labels) - 1) // 2:  # no label is above its place, so each is at its own
        return member.count
    return float(member.count * _votes(member, labels).sum() / member.weights.sum())


def _votes(member: ClassSums, labels: Labels) -> Floats:
    """Of each feature that is kept singly, M: one for each group."""
    return member.weights / np.bincount(labels, minlength=len(labels))[labels]


def _added_rows(apart: Floats, weights: Floats, totals: Floats) -> Floats:
    """Rows, G x Q x D, whose products groups have added to the scatter of their classes.

    Args:
        apart: features from the mean of their class, G x Q x D.
        weights: G x Q.
        totals: of all features of the class, G.

    Without a group the mean lies elsewhere, so that what goes is `Y' (I + u u' / (n - g)) Y`, with `Y` the features
    times the roots `u` of their weights, `g` these weights' sum and `n` the total. Its root is `Y + b u u' Y`.
    """
    roots = np.sqrt(weights)
    rows, own = roots[:, :, None] * apart, weights.sum(1)
    factor = (np.sqrt(1 + own / (totals - own)) - 1) / own
    return rows + (factor[:, None] * roots)[:, :, None] * np.einsum("gq,gqd->gd", roots, rows)[:, None]  # type: ignore[no-any-return]
