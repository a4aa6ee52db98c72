"""Which groups are left out, what they count, and that two ways of leaving them out agree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.covariance import RidgeInverse, SharedCovariance
from protoreplay.prototypes.sums import ClassSums
from protoreplay.prototypes.taught import BACKGROUND, FEWEST_ASKED, MOST_ASKED, TaughtClasses
from tests.prototypes.test_left_out import refitted_products


def drawn(counts, width, seed=0, weighted=False):
    """Features of each class, and a weight each."""
    random = np.random.default_rng(seed)
    features = [random.normal(size=width) + random.normal(size=(n, width)) for n in counts]
    return features, [random.choice([0.5, 1.0, 2.0], n) if weighted else np.ones(n) for n in counts]


def members_of(features, weights):
    keys = np.random.default_rng(1).permutation(10_000).astype(np.uint64)
    starts = np.cumsum([0, *map(len, features)])
    return [
        ClassSums.of(x, np.sort(keys[start : start + len(x)]), weights=own)
        for x, own, start in zip(features, weights, starts)
    ]


def in_main_directions(taught, ridge):
    plan, variances = taught.plan_in_main_directions()
    return plan.carried_out(RidgeInverse(1 / (variances + ridge * taught.level()), 1, np.zeros((0, len(variances)))))


def assert_same_scores(one, other, tolerance=1e-8):
    assert np.array_equal(one.owners, other.owners)
    assert np.array_equal(one.votes, other.votes)
    for name in ("cross", "squares", "lengths", "noise"):
        ours, theirs = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        assert np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * max(np.abs(ours).max(), 1)), name


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    width=st.sampled_from([2, 6, 17, 60]),
    reduced=st.booleans(),
    near=st.sampled_from([None, 8.0]),
    ridge=st.sampled_from([0.2, 1.0, 40.0]),
    seed=st.integers(0, 99),
)
def test_main_directions_give_the_same_scores(counts, width, reduced, near, ridge, seed):
    members = members_of(*drawn(counts, width, seed, weighted=True))
    taught = TaughtClasses.of([member.reduced(3, 2) for member in members] if reduced else members, near)
    plain = taught.plan().carried_out(taught.inverse(ridge))
    if plain is None:
        assert not taught.plan_in_main_directions()[0].batches
    else:
        assert_same_scores(in_main_directions(taught, ridge), plain)


@pytest.mark.parametrize("width", [5, 80])
def test_a_covariance_whose_rows_are_in_another_order(width):
    """As that of a model to which a class was added whose name comes first."""
    members = [member.reduced(3, 2) for member in members_of(*drawn([6, 4, 8], width))]
    grown = SharedCovariance.of_classes(members[1:], width).plus_class(members[0])
    expected = TaughtClasses.of(members, None).plan().carried_out(TaughtClasses.of(members, None).inverse(1.0))
    assert_same_scores(in_main_directions(TaughtClasses.of(members, None, grown), 1.0), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("counts", "width"), [([4, 5], 3), ([6, 3, 5], 30), ([7], 4)])
def test_every_feature_left_out_is_as_if_it_had_not_been_learned(counts, width, weighted):
    features, weights = drawn(counts, width, weighted=weighted)
    taught = TaughtClasses.of(members_of(features, weights), None)
    found = taught.plan().carried_out(taught.inverse(0.7))
    assert np.bincount(found.owners).tolist() == counts
    freedom = max(sum(own.sum() for own in weights) - len(counts), 1)
    totals = np.array([own.sum() for own in weights])
    expected, distances = [], []
    for k, rows in enumerate(features):
        for place in range(len(rows)):
            cross, squares, lengths = refitted_products(features, weights, k, [place], 0.7 * taught.level() * freedom)
            left = totals - weights[k][place] * (np.arange(len(counts)) == k)
            expected.append((cross[0], squares, left, lengths[0], weights[k][place]))
            distances.append((lengths[0] - 2 * cross[0, k] + squares[k]) / (1 + 1 / left[k]))
    noise = np.average(distances, weights=[one[-1] for one in expected])
    assert np.isclose(found.noise, noise)
    # The groups are asked in the order of their keys: by their lengths they are put into one order.
    expected.sort(key=lambda one: one[3])
    order = np.argsort(found.lengths)
    for at, (cross, squares, left, length, weight) in zip(order, expected):
        assert np.allclose(found.cross[at], cross, atol=1e-6)  # the centre is rounded
        assert np.allclose(found.squares[at], squares - noise / left)
        assert np.isclose(found.lengths[at], length)
        assert found.votes[at] == weight
    distances = found.lengths[:, None] - 2 * found.cross + found.squares
    assert np.allclose(found.familiarity(), BACKGROUND * found.lengths - distances.min(1))
    assert np.allclose(found.scores(0.5), found.cross - found.squares / 4)


def test_near_duplicates_are_left_out_together_and_vote_together():
    """Class a: two bursts, of 3 and of 2; class b: one burst, and nothing would be left without it."""
    random = np.random.default_rng(0)
    middles = 10 * random.normal(size=(3, 6))
    bursts = [middle + 0.01 * random.normal(size=(n, 6)) for middle, n in zip(middles, (3, 2, 4))]
    features = [np.concatenate(bursts[:2]), bursts[2]]
    weights = [np.ones(5), np.ones(4)]
    taught = TaughtClasses.of(members_of(features, weights), 1.0)
    assert taught.effective_counts.tolist() == [2, 1]
    found = taught.plan().carried_out(taught.inverse(1.0))
    assert found.owners.tolist() == [0] * 5
    assert np.allclose(found.votes, [1 / 2] * 2 + [1 / 3] * 3), "groups of two come before groups of three"
    ridge = taught.level() * 7
    for at, places in ((slice(0, 2), [3, 4]), (slice(2, 5), [0, 1, 2])):
        cross, squares, lengths = refitted_products(features, weights, 0, places, ridge)
        assert np.allclose(found.cross[at], cross, atol=1e-6)  # the centre is rounded
        assert np.allclose(found.squares[at], squares - found.noise)  # one feature that differs is left of each class
        assert np.allclose(found.lengths[at], lengths)


def test_where_no_class_has_two_nothing_is_left_out():
    alone = members_of(*drawn([1, 1, 1], 4))
    assert TaughtClasses.of(alone, None).plan().carried_out(TaughtClasses.of(alone, None).inverse(1.0)) is None
    bursts = [ClassSums.of(k + np.zeros((3, 2)), [3 * k, 3 * k + 1, 3 * k + 2]) for k in range(2)]
    assert not TaughtClasses.of(bursts, 0.1).plan().batches
    repeated = [ClassSums.of(np.ones((1, 2)), [1], weights=np.array([5.0]))]
    assert not TaughtClasses.of(repeated, None).plan().batches


def test_with_the_covariance_as_it_was_only_the_mean_goes():
    """Variances are neither less nor divided by fewer degrees of freedom."""
    features, weights = drawn([3, 2], 4)
    taught = TaughtClasses.of(members_of(features, weights), None)
    inverse = taught.inverse(1.0, "diagonal")
    found = taught.plan().carried_out(inverse, covariance_stays=True)
    expected = []
    for k, rows in enumerate(features):
        for place, query in enumerate(rows):
            means = [np.delete(x, place, 0).mean(0) if j == k else x.mean(0) for j, x in enumerate(features)]
            expected.append(float(inverse.lengths(query - np.mean(means, 0))))
    assert np.allclose(np.sort(found.lengths), np.sort(expected))


def test_how_many_are_asked():
    """At most a thousand features, the fewer the more classes there are, of the lowest keys."""
    few = TaughtClasses.of(members_of(*drawn([600, 600], 2)), None)
    assert len(few.plan().batches[0][0].owners) == MOST_ASKED
    many = TaughtClasses.of(members_of(*drawn([2] * 2500, 2)), None)
    batch = many.plan().batches[0]
    assert FEWEST_ASKED < len(batch[0].owners) == 400 < MOST_ASKED
    keys = np.sort(np.concatenate([member.keys for member in many.members]))
    asked = [(member.keys <= keys[399]).sum() for member in many.members]
    assert np.array_equal(np.bincount(batch[0].owners, minlength=2500), asked)


def test_the_level_where_nothing_has_varied_is_that_of_the_classes():
    pair = TaughtClasses.of([ClassSums.of(np.full((1, 4), value), [0]) for value in (-3.0, 3.0)], None)
    assert pair.level() == 9
    alone = TaughtClasses.of([ClassSums.of(np.ones((1, 4)), [0])], None)
    assert alone.level() == 1 / 4


def test_features_not_kept_singly_count_like_those_that_are():
    """Of 40 features in 20 pairs ten are kept, five pairs: so it is taken that all others come in pairs, too."""
    random = np.random.default_rng(0)
    rows = np.repeat(10 * random.normal(size=(20, 5)), 2, 0)
    member = ClassSums.of(rows, np.arange(40)).reduced(10, 5)
    assert TaughtClasses.of([member], 0.1).effective_counts.tolist() == [20]
    assert TaughtClasses.of([member], None).effective_counts.tolist() == [40]
