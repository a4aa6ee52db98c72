from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from protoreplay.analysis import latent
from protoreplay.core.errors import UserError
from protoreplay.experiments.snapshots import PrototypeSnapshot


def random_snapshot(seed, classes=3, width=6, images=40):
    random = np.random.default_rng(seed)
    labels = np.arange(images) % classes
    means = 4 * random.normal(size=(classes, width))
    return PrototypeSnapshot(
        mean=means.astype(np.float32),
        variance=random.uniform(0.1, 2, (classes, width)).astype(np.float32),
        classes=np.arange(classes),
        tested=np.ones(images, np.int64),
        labels=labels,
        predicted=random.integers(0, classes, images),
        confidence=random.uniform(0, 1, images).astype(np.float32),
        images=(means[labels] + random.normal(size=(images, width))).astype(np.float32),
        image_labels=labels,
        shots=means[labels].astype(np.float32),
        shot_labels=labels,
    )


def test_axes_come_from_task_1_alone_so_that_a_turn_of_later_tasks_is_seen():
    first, later = random_snapshot(0), random_snapshot(1)
    axes = latent.principal_axes(first.images, 3)
    angle = 0.7
    turn = np.eye(6)
    u, v = axes.directions[:2]
    turn += (np.cos(angle) - 1) * (np.outer(u, u) + np.outer(v, v)) + np.sin(angle) * (np.outer(v, u) - np.outer(u, v))
    turned = axes.centre + (later.mean - axes.centre) @ turn.T

    def places(mean):
        snapshots = [first, replace(later, mean=mean)]
        axes = latent.principal_axes(snapshots[0].images, 3)
        return np.stack([axes.project(path.means) for path in latent.prototype_paths(snapshots).values()])

    before, after = places(later.mean), places(turned)
    np.testing.assert_allclose(after[:, 0], before[:, 0])
    c, s = np.cos(angle), np.sin(angle)
    expected = before[:, 1] @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T
    np.testing.assert_allclose(after[:, 1], expected, atol=1e-5)
    assert np.abs(after[:, 1] - before[:, 1]).max() > 0.5


def test_principal_axes_are_orthonormal_and_the_widest_first():
    points = np.random.default_rng(0).normal(size=(200, 4)) * [1, 5, 0.1, 2]
    axes = latent.principal_axes(points, 3)
    np.testing.assert_allclose(axes.directions @ axes.directions.T, np.eye(3), atol=1e-12)
    assert np.abs(axes.directions).argmax(1).tolist() == [1, 3, 0]
    with pytest.raises(UserError, match="2 points of dimension 4 have no 3 principal axes"):
        latent.principal_axes(points[:2], 3)


def test_tsne_is_the_same_twice():
    points = random_snapshot(0).images
    np.testing.assert_array_equal(latent.tsne(points), latent.tsne(points))


def test_paths_begin_with_the_class_and_measure_its_steps():
    first = replace(random_snapshot(0), mean=np.array([[0.0, 0], [1, 0]]), classes=np.array([0, 1]))
    second = replace(first, mean=np.array([[3.0, 4], [1, 0], [7, 7]]), classes=np.array([0, 1, 5]))
    paths = latent.prototype_paths([first, second])
    assert {label: path.tasks for label, path in paths.items()} == {0: [1, 2], 1: [1, 2], 5: [2]}
    assert paths[0].steps().tolist() == [5.0]
    moved, vectors = latent.motion_vectors(paths)
    assert moved == [0, 1]
    assert vectors.tolist() == [[3.0, 4.0], [0.0, 0.0]]


def test_outward_motion_is_the_growth_of_the_distance_from_the_first_centre():
    centre = np.array([[1.0, 1], [3, 1]], np.float32)  # around (2, 1)
    first = replace(random_snapshot(0), mean=np.array([[3.0, 1], [2, 4]]), classes=np.array([0, 1]), images=centre)
    second = replace(first, mean=np.array([[8.0, 1], [2, 3], [9, 9]]), classes=np.array([0, 1, 5]), images=centre + 7)
    assert latent.outward_motion([first, second]) == pytest.approx(100 * ((6 + 2) / (1 + 3) - 1))
    assert latent.outward_motion([first]) is None


def test_the_correlation_is_pearsons_and_p_the_share_of_permutations_as_large():
    random = np.random.default_rng(3)
    one, other = latent.similarity(random.normal(size=(5, 2))), latent.similarity(random.normal(size=(5, 3)))
    upper = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    direct = np.corrcoef([one[pair] for pair in upper], [other[pair] for pair in upper])[0, 1]
    found = latent.correlation(one, other)
    assert found.r == pytest.approx(direct)
    assert found.pairs == 10
    everything = []
    for order in permutations(range(5)):
        mixed = other[np.ix_(order, order)]
        everything.append(np.corrcoef([one[pair] for pair in upper], [mixed[pair] for pair in upper])[0, 1])
    exact = np.mean(np.abs(everything) >= abs(direct) - 1e-12)
    assert found.p == pytest.approx(exact, abs=0.02)
    assert latent.correlation(one, one).r == pytest.approx(1)
    assert latent.correlation(one, one).p < 0.03
    assert latent.correlation(one[:2, :2], other[:2, :2]) is None
    assert latent.correlation(one, np.zeros((5, 5))) is None


def test_similarity_is_minus_the_distance():
    assert latent.similarity(np.array([[0, 0], [3, 4]])).tolist() == [[0, -5], [-5, 0]]


def test_without_the_dimension_that_tells_classes_apart_nothing_is_right():
    """The first dimension is the surest and the only one that differs; classes are told apart until it goes."""
    images = np.array([[0.0, 1], [0.1, 2], [1, 1], [0.9, 2]], np.float32)
    means = np.array([[0.0, 1.5], [1, 1.4]], np.float32)
    snapshot = replace(
        random_snapshot(0),
        images=images,
        image_labels=np.array([0, 0, 1, 1]),
        mean=means,
        variance=np.array([[0.1, 5], [0.1, 5]], np.float32),
        classes=np.array([0, 1]),
    )
    dropped = latent.drop_dimensions(snapshot)
    assert dropped.shares[-1] == 0.5
    assert dropped.unsure_first.tolist() == [1.0] * 20
    assert dropped.confident_first[0] == 1.0
    assert dropped.confident_first[-1] == 0.5


def test_reliability_by_hand():
    confidence = np.array([0.95, 0.95, 0.55, 0.55, 1.0])
    correct = np.array([True, True, True, False, False])
    found = latent.reliability(confidence, correct)
    assert found.answers.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 0, 3]
    gap_of_5, gap_of_9 = abs(0.55 - 0.5), abs(2.9 / 3 - 2 / 3)
    assert found.error == pytest.approx((2 * gap_of_5 + 3 * gap_of_9) / 5)
    assert np.isnan(found.accuracy[0])


def test_class_accuracies_and_confusion_by_hand():
    one = replace(random_snapshot(0), labels=np.array([0, 0, 1]), predicted=np.array([0, 1, 1]))
    two = replace(one, labels=np.array([0, 1, 4, 4]), predicted=np.array([0, 0, 4, 1]))
    classes, table = latent.class_accuracies([one, two])
    assert classes == [0, 1, 4]
    np.testing.assert_array_equal(table, [[0.5, 1], [1, 0], [np.nan, 0.5]])
    classes, shares = latent.confusion(two)
    assert classes == [0, 1, 4]
    assert shares.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0.5, 0.5]]
