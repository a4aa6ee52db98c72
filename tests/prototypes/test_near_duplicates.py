import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.near_duplicates import ALIKE, NEAR, near_duplicate_groups
from protoreplay.prototypes.sums import ClassSums, rooted

NO_LOOKS = np.zeros(3, np.uint64)


def at_angles(*squared_distances):
    """Points of the unit circle, each this far from the one before."""
    angles = np.cumsum([0, *(2 * np.arcsin(np.sqrt(square) / 2) for square in squared_distances)])
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def test_features_nearer_than_near_are_one_group():
    assert near_duplicate_groups(at_angles(0.9 * NEAR, 1.1 * NEAR), NO_LOOKS).tolist() == [0, 0, 2]
    assert near_duplicate_groups(at_angles(0.9 * NEAR, 1.1 * NEAR), NO_LOOKS, near=2 * NEAR).tolist() == [0, 0, 0]


def test_groups_reach_through_others():
    """The first and the last are far from each other, but a chain leads from one to the other."""
    rows = at_angles(*[0.9 * NEAR] * 6)
    assert np.square(rows[0] - rows[-1]).sum() > 4 * NEAR
    assert near_duplicate_groups(rows, np.zeros(7, np.uint64)).tolist() == [0] * 7


@pytest.mark.parametrize(("bits", "together"), [(ALIKE, True), (ALIKE + 1, False)])
def test_pictures_that_look_alike_are_one_group(bits, together):
    looks = np.array([0xFF00FF00FF00FF00, 0xFF00FF00FF00FF00 ^ ((1 << bits) - 1), 0], np.uint64)
    found = near_duplicate_groups(np.eye(3), looks)
    assert (found[0] == found[1]) == together
    assert found[2] == 2


def test_a_look_that_is_not_known_is_like_no_other():
    looks = np.array([0, 0, 1], np.uint64)  # zero differs from one by a single bit
    assert near_duplicate_groups(np.eye(3), looks).tolist() == [0, 1, 2]


def test_a_feature_is_always_near_itself():
    """Whatever rounding makes of its distance from itself."""
    rows = rooted(np.random.default_rng(0).normal(size=(30, 50)))
    assert near_duplicate_groups(rows, np.zeros(30, np.uint64), near=0.0).tolist() == list(range(30))


def test_without_near_every_feature_is_by_itself():
    member = ClassSums.of(np.ones((3, 2)), [5, 9, 7])
    assert near_duplicate_groups(member.rows, member.looks, None).tolist() == [0, 1, 2]
    assert near_duplicate_groups(member.rows, member.looks, NEAR).tolist() == [0, 0, 0]


def linked(rows, near):
    """By search from neighbour to neighbour."""
    expected, todo = {}, set(range(len(rows)))
    while todo:
        group = [todo.pop()]
        for one in group:  # grows while it is gone through
            close = [other for other in todo if np.square(rows[one] - rows[other]).sum() <= near]
            group += close
            todo -= set(close)
        expected |= dict.fromkeys(group, frozenset(group))
    return expected


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(14)), st.sampled_from([0.01, 0.1, 0.3]))
def test_the_order_does_not_matter_and_neighbours_search_finds_the_same(order, near):
    random = np.random.default_rng(3)
    rows = rooted(np.repeat(random.normal(size=(5, 4)), 3, 0)[:14] + 0.1 * random.normal(size=(14, 4)))
    expected = linked(rows, near)
    if 2 * len(set(expected.values())) <= 14:  # most are almost the same: those that are nearly so count too
        expected = linked(rows, 2 * near)
    found = near_duplicate_groups(rows[list(order)], np.zeros(14, np.uint64), near)
    for place, one in enumerate(order):
        assert {order[at] for at in np.flatnonzero(found == found[place])} == expected[one]
