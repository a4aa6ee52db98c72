"""What kept prototypes tell: maps, motion, similarity, confidence. Pure functions of snapshots."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protoreplay.core.errors import UserError
from protoreplay.experiments.snapshots import PrototypeSnapshot

Floats = NDArray[np.float64]

PERMUTATIONS = 9_999
SHARES = np.linspace(0, 0.95, 20)
"""Of the dimensions, that are dropped."""


class PrincipalAxes(NamedTuple):
    """Principal axes: the centre, D, and orthonormal directions, A x D, the widest spread first."""

    centre: Floats
    directions: Floats

    def project(self, points: NDArray[np.floating]) -> Floats:
        """Points, N x D, in these axes, N x A."""
        projected: Floats = (np.asarray(points, np.float64) - self.centre) @ self.directions.T
        return projected


def principal_axes(points: NDArray[np.floating], count: int) -> PrincipalAxes:
    """The first `count` principal axes of points, N x D; each has its largest number positive, so that it is one."""
    if min(points.shape) < count:
        raise UserError(f"{len(points)} points of dimension {points.shape[1]} have no {count} principal axes")
    centre = points.mean(0, dtype=np.float64)
    directions: Floats = np.linalg.svd(points - centre, full_matrices=False)[2][:count]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], 1)
    return PrincipalAxes(centre, directions * np.where(largest < 0, -1, 1))


def tsne(points: NDArray[np.floating]) -> Floats:
    """A t-SNE map of points, N x D, N x 2: the same for the same points."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(points) - 1) / 3)
    # So few points are mapped faster by one thread, and with one the sums do not depend on the machine.
    with threadpool_limits(1):
        mapped: Floats = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(points)
    return mapped


class PrototypePath(NamedTuple):
    """Where the prototype of a class was: after which tasks, T, and its means, T x D."""

    tasks: list[int]
    means: Floats

    def steps(self) -> Floats:
        """How far it moved in each task but its first, T - 1."""
        lengths: Floats = np.linalg.norm(np.diff(self.means, axis=0), axis=1)
        return lengths


def prototype_paths(snapshots: Sequence[PrototypeSnapshot]) -> dict[int, PrototypePath]:
    """By class, its prototype's path; of several prototypes of a class, their mean's."""
    found: dict[int, tuple[list[int], list[Floats]]] = {}
    for task, snapshot in enumerate(snapshots, start=1):
        for label in np.unique(snapshot.classes).tolist():
            tasks, means = found.setdefault(label, ([], []))
            tasks.append(task)
            means.append(snapshot.mean[snapshot.classes == label].mean(0, dtype=np.float64))
    return {label: PrototypePath(tasks, np.stack(means)) for label, (tasks, means) in sorted(found.items())}


def motion_vectors(found: dict[int, PrototypePath]) -> tuple[list[int], Floats]:
    """The classes whose prototypes have been through a later task, C, and each one's last minus first mean, C x D."""
    moved = [label for label, path in found.items() if len(path.tasks) > 1]
    return moved, np.array([found[label].means[-1] - found[label].means[0] for label in moved])


def outward_motion(snapshots: Sequence[PrototypeSnapshot]) -> float | None:
    """By how many percent prototypes ended farther from the centre than they began; None where none has moved.

    The centre is the mean of the images' latent means after task 1; distances are summed over classes.
    """
    centre = snapshots[0].images.mean(0, dtype=np.float64)
    ends = [path.means[[0, -1]] for path in prototype_paths(snapshots).values() if len(path.tasks) > 1]
    if not ends:
        return None
    first, last = np.linalg.norm(np.stack(ends) - centre, axis=-1).sum(0)
    return float(100 * (last / first - 1))


def similarity(points: NDArray[np.floating]) -> Floats:
    """Of points, N x D, minus the Euclidean distance of each pair, N x N (as in the paper)."""
    points = np.asarray(points, np.float64)
    distances: Floats = np.linalg.norm(points[:, None] - points, axis=-1)
    return -distances


class Correlation(NamedTuple):
    """Pearson's r over `pairs` of classes, and its two-sided p in a permutation test."""

    r: float
    p: float
    pairs: int


def correlation(first: Floats, second: Floats) -> Correlation | None:
    """How two similarity matrices, C x C, go together; None below three classes, or where nothing differs.

    Pairs share their classes, so that they are not independent: p comes from permuting the classes of one matrix
    (Mantel's test) with a fixed seed.
    """
    count = len(first)
    pairs = np.triu_indices(count, 1)
    if count < 3 or not np.ptp(first[pairs]) or not np.ptp(second[pairs]):
        return None
    one = first[pairs] - first[pairs].mean()
    scale = np.linalg.norm(one)

    def r(matrix: Floats) -> float:
        other = matrix[pairs] - matrix[pairs].mean()
        return float(one @ other / (scale * np.linalg.norm(other)))

    found, random = r(second), np.random.default_rng(0)
    orders = (random.permutation(count) for _ in range(PERMUTATIONS))
    # A permutation that changes nothing must count, whatever the rounding.
    as_large = sum(abs(r(second[np.ix_(order, order)])) >= abs(found) - 1e-12 for order in orders)
    return Correlation(found, (1 + as_large) / (1 + PERMUTATIONS), len(one))


class DroppedDimensions(NamedTuple):
    """Accuracy, a fraction, when a share of the dimensions is dropped: the confident ones first, or the others."""

    shares: Floats
    confident_first: Floats
    unsure_first: Floats


def drop_dimensions(snapshot: PrototypeSnapshot) -> DroppedDimensions:
    """Nearest prototype means of the kept images without the dimensions of lowest, or highest, variance.

    A dimension is confident where prototypes' variance is low.
    """
    order = np.argsort(snapshot.variance.mean(0), kind="stable")
    counts = np.minimum((SHARES * len(order)).astype(int), len(order) - 1)
    kept = [[_accuracy(snapshot, o[count:]) for count in counts] for o in (order, order[::-1])]
    return DroppedDimensions(counts / len(order), *map(np.array, kept))


def _accuracy(snapshot: PrototypeSnapshot, dimensions: NDArray[np.int64]) -> float:
    images, means = snapshot.images[:, dimensions], snapshot.mean[:, dimensions]
    distances = (means**2).sum(1) - 2 * images @ means.T
    return float((snapshot.classes[distances.argmin(1)] == snapshot.image_labels).mean())


class Reliability(NamedTuple):
    """Answers in ten bins of confidence, and their expected calibration error.

    Attributes:
        confidence: mean of each bin, NaN where it is empty.
        accuracy: of each bin, a fraction, NaN where it is empty.
        answers: how many are in each bin.
        error: mean over answers of the gap between confidence and accuracy of their bin, a fraction.
    """

    confidence: Floats
    accuracy: Floats
    answers: NDArray[np.int64]
    error: float


def reliability(confidence: NDArray[np.floating], correct: NDArray[np.bool_], bins: int = 10) -> Reliability:
    """How far the probability of an answer, N, is how often it is right, N."""
    bin_of = np.minimum((np.asarray(confidence, np.float64) * bins).astype(int), bins - 1)
    count = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(bin_of, confidence, bins) / count
        accuracy = np.bincount(bin_of, correct, bins) / count
    gaps = np.abs(mean - accuracy)
    return Reliability(mean, accuracy, count, float(np.nansum(gaps * count) / count.sum()))


def class_accuracies(snapshots: Sequence[PrototypeSnapshot]) -> tuple[list[int], Floats]:
    """The classes, C, and the accuracy, a fraction, on each after each task, C x T, NaN where it was not known."""
    classes = np.unique(snapshots[-1].labels).tolist()
    table = np.full((len(classes), len(snapshots)), np.nan)
    for task, snapshot in enumerate(snapshots):
        for row, label in enumerate(classes):
            own = snapshot.labels == label
            if own.any():
                table[row, task] = (snapshot.predicted[own] == label).mean()
    return classes, table


def confusion(snapshot: PrototypeSnapshot) -> tuple[list[int], Floats]:
    """The classes, C, and for each the fractions of its images that were taken for each, C x C."""
    classes = np.unique(np.concatenate([snapshot.labels, snapshot.predicted]))
    counts = np.zeros((len(classes), len(classes)))
    np.add.at(counts, (np.searchsorted(classes, snapshot.labels), np.searchsorted(classes, snapshot.predicted)), 1)
    return classes.tolist(), counts / np.maximum(counts.sum(1, keepdims=True), 1)
