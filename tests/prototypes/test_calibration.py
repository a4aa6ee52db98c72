"""On Gaussians whose truth is known: what leaving out says holds for samples that were never seen.

Bounds are on means over the first ten draws. They were set from 100 draws (50 for noise, probabilities and the class of
two samples): the mean over all of them, and about three standard deviations of a mean over ten to either side.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes import calibration as c
from protoreplay.prototypes.prototype_head import fit_head
from protoreplay.prototypes.sums import ClassSums
from protoreplay.prototypes.taught import TaughtClasses

WIDTH, DRAWS, FRESH = 40, 10, 40
SPREAD = np.r_[np.full(WIDTH // 2, 2.0), np.full(WIDTH // 2, 0.5)]
NEAR = 1.0


def class_of(random, rows, copies=1):
    """A class of samples; with `copies` each of them comes as so many near-duplicates."""
    rows = np.repeat(rows, copies, 0)
    rows = rows + 0.01 * random.normal(size=rows.shape) * (copies > 1)
    return ClassSums.of(rows, random.integers(0, 2**62, len(rows))).reduced()


def draws(counts, copies=1, near=None, kind="full", fit=fit_head):
    """Heads, and of each the scores of fresh samples, class after class."""
    for seed in range(DRAWS):
        random = np.random.default_rng(seed)
        means = 0.6 * random.normal(size=(len(counts), WIDTH))
        taught = {
            f"{k}": class_of(random, mean + SPREAD * random.normal(size=(count, WIDTH)), copies)
            for k, (mean, count) in enumerate(zip(means, counts))
        }
        fresh = means[:, None] + SPREAD * random.normal(size=(len(counts), FRESH, WIDTH))
        yield fit(taught, near=near, kind=kind), taught, means, fresh


def refused_share(heads, false_alarms=0.05):
    shares = []
    for head, _, _, fresh in heads:
        familiar = head.familiarity(*head.scores(fresh.reshape(-1, WIDTH)))
        shares.append((familiar < head.threshold(false_alarms)).mean())
    return np.mean(shares)


@pytest.mark.parametrize("kind", ["full", "diagonal", "identity"])
@pytest.mark.parametrize("counts", [[10] * 6, [3] * 6, [2] * 6, [12, 12]])
def test_about_as_many_known_samples_are_refused_as_was_asked_for(counts, kind):
    """Over 100 draws 6.5 to 8.2 % were refused where 5 % were asked for, so a little too many; the mean over ten had a
    standard deviation of up to 2.2 points. A ridge that grew as samples were left out once refused 23 % where classes
    had two samples."""
    assert 0.015 < refused_share(draws(counts, kind=kind)) < 0.145


def test_a_larger_share_refuses_more():
    assert 0.15 < refused_share(draws([10] * 6), 0.2) < 0.24


def test_near_duplicates_do_not_make_it_refuse_what_is_not_one():
    """Three groups of ten near-duplicates a class; fresh samples are not near to any."""
    assert refused_share(draws([3] * 6, 10, NEAR)) < 0.15


def test_taken_for_different_near_duplicates_would_refuse_almost_all():
    assert refused_share(draws([3] * 6, 10, None)) > 0.8


def test_of_a_class_of_one_group_nothing_is_left_out():
    random = np.random.default_rng(0)
    rows = random.normal(size=(3, WIDTH))
    burst, others = class_of(random, rows[:1], 8), class_of(random, rows[1:])
    both = TaughtClasses.of([burst, others], NEAR)
    found = both.plan().carried_out(both.inverse(1.0))
    assert set(found.owners) == {1}
    assert c.calibrate(both).groups == 2
    alone = c.calibrate(TaughtClasses.of([burst, class_of(random, rows[1:2])], NEAR))
    assert alone.groups == 0


def test_with_one_sample_a_class_nothing_is_known():
    head = fit_head({name: ClassSums.of(np.eye(4)[[k]], [k]) for k, name in enumerate("abc")})
    assert head.calibration.groups == 0
    assert head.threshold(0.05) == -math.inf
    assert head.probabilities(head.scores(np.eye(4)[:3])[0]).argmax(1).tolist() == [0, 1, 2]


def test_without_groups_to_compare_there_is_no_threshold():
    """Two samples of one class are two groups: no spread is known of so few."""
    taught = {"a": ClassSums.of(np.eye(4)[:2], [0, 1]), "b": ClassSums.of(np.eye(4)[2:3], [2])}
    head = fit_head(taught)
    assert (head.calibration.groups, head.calibration.familiar_std, head.threshold(0.05)) == (2, 0, -math.inf)


@pytest.mark.parametrize("counts", [[2] * 6, [3] * 6, [10] * 6, [2, 20, 20]])
def test_the_noise_is_unbiased(counts):
    """It is the squared distance of fresh samples from the true means of their classes."""
    ratios = []
    for head, taught, means, fresh in draws(counts):
        classes = TaughtClasses.of([taught[name] for name in head.names], None)
        truth = classes.inverse(head.calibration.ridge).lengths(fresh - means[:, None]).mean()
        ratios.append(head.calibration.noise / truth)
    assert np.mean(ratios) == pytest.approx(1, abs=0.11)


@pytest.mark.parametrize(
    ("counts", "room"), [([20] * 6, 0.05), ([10] * 6, 0.09), ([3] * 6, 0.18), ([2, 20, 20], 0.075)]
)
def test_probabilities_are_calibrated(counts, room):
    """Of answers given 70 %, about 70 % are right. With few samples the prior of the temperature has its say, which is
    for features of networks: then it is less sure than it could be."""
    gaps = []
    for head, _, _, fresh in draws(counts):
        for k, rows in enumerate(fresh):
            given_to = head.probabilities(head.scores(rows)[0])
            gaps.append(given_to.max(1) - (given_to.argmax(1) == k))
    assert abs(np.mean(gaps)) < room


@pytest.mark.parametrize("truth", [0.3, 1.0, 2.0])
def test_the_temperature_that_made_the_labels_is_found(truth):
    random = np.random.default_rng(1)
    scores = 4 * truth * random.normal(size=(4000, 3))
    exact = np.exp(scores / truth)
    labels = (random.random((4000, 1)) > np.cumsum(exact / exact.sum(1, keepdims=True), 1)).sum(1)
    temperature, loss = c.likeliest_temperature(scores, labels, np.ones(4000), 1.0)
    assert temperature == pytest.approx(truth, rel=0.1)
    logarithms = scores / temperature - np.log(np.exp(scores / temperature).sum(1, keepdims=True))
    assert loss == pytest.approx(-logarithms[np.arange(4000), labels].sum())


def test_answers_that_were_all_right_make_no_certainty():
    temperature, _ = c.likeliest_temperature(100 * np.eye(3), np.arange(3), np.ones(3), typical=30.0)
    assert 3 < temperature < 30
    assert np.exp(-100 / temperature) > 1e-12


def test_few_samples_of_a_class_do_not_drown_among_many_of_others():
    """The mean of two samples lies farther from the centre than that of twenty, only because it is noisy. Without the
    part that noise adds being taken off, the class would lose its samples to others."""
    right = {True: [], False: []}
    for head, taught, _, fresh in draws([2, 20, 20, 20, 20]):
        without = head.calibration._replace(noise=0.0)
        for corrected, one in ((True, head), (False, fit_head(taught, without, near=None))):
            right[corrected].append((one.scores(fresh[0])[0].argmax(1) == 0).mean())
    assert np.mean(right[True]) > np.mean(right[False]) + 0.1
    rest = np.mean([(h.scores(f[1])[0].argmax(1) == 1).mean() for h, _, _, f in draws([2, 20, 20, 20, 20])])
    assert rest > 0.7, "and the others keep theirs"


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(24)), st.lists(st.integers(1, 23), max_size=4, unique=True))
def test_what_is_chosen_depends_on_the_content_alone(order, cuts):
    random = np.random.default_rng(0)
    labels, keys = np.arange(24) % 3, random.integers(0, 2**62, 24)
    rows = random.normal(size=(3, 9))[labels] + random.normal(size=(24, 9))
    whole = {str(k): ClassSums.of(rows[labels == k], keys[labels == k]) for k in range(3)}
    taught = {}
    for portion in np.split(np.array(order), sorted(cuts)):
        for k in {int(labels[at]) for at in portion}:
            own = portion[labels[portion] == k]
            added = ClassSums.of(rows[own], keys[own]).reduced()
            taught[str(k)] = (taught[str(k)] + added).reduced() if str(k) in taught else added
    assert fit_head(taught, near=None).calibration == fit_head(whole, near=None).calibration


def test_the_usual_ridge():
    assert [c.usual_ridge(count) for count in (0, 10, 100, 1000, 1e6)] == [120, 120, 40, 4, 1]


def test_the_ridge_follows_the_data():
    """A low one is chosen where classes differ in directions that hardly vary, a high one where all vary alike."""
    random = np.random.default_rng(0)
    keys = iter(range(1000))

    def taught(means, spread):
        rows = [mean + spread * random.normal(size=(30, WIDTH)) for mean in means]
        return TaughtClasses.of([ClassSums.of(x, [next(keys) for _ in x]) for x in rows], None)

    means = random.normal(size=(4, WIDTH))
    uneven, even = np.r_[np.full(4, 20.0), np.full(WIDTH - 4, 1.0)], np.full(WIDTH, 3.0)
    assert c.calibrate(taught(means, uneven), usual=1.0).ridge < 0.2
    assert c.calibrate(taught(means, even), usual=1.0).ridge >= 1.0


@given(st.lists(st.floats(0.01, 1), max_size=6), st.lists(st.floats(0.01, 1), max_size=6))
def test_the_lowest_of_a_valley_is_found_without_trying_everything(falls, rises):
    losses = [*np.cumsum(falls)[::-1], 0.0, *np.cumsum(rises)]
    tried = set()
    assert c.lowest_of(len(losses), lambda place: tried.add(place) or losses[place]) == len(falls)
    assert len(tried) <= abs(len(falls) - len(losses) // 2) + 3


def test_more_classes_than_are_chosen_for_take_the_usual_ridge(monkeypatch):
    random = np.random.default_rng(0)
    members = [ClassSums.of(random.normal(size=(3, 60)), range(3 * k, 3 * k + 3)) for k in range(8)]
    taught = TaughtClasses.of(members, None)
    chosen = c.calibrate(taught)
    monkeypatch.setattr(c, "MOST_CHOSEN", 7)
    usual = c.calibrate(taught)
    assert (usual.ridge, usual.shrink) == (120.0, c.SHRINK)
    assert usual.groups == chosen.groups == 24
    monkeypatch.setattr(c, "MOST_CHOSEN", 100)
    monkeypatch.setattr(c, "RIDGE_STEPS", (1.0,))
    monkeypatch.setattr(c, "SHRINKS", (c.SHRINK,))
    assert np.allclose(c.calibrate(taught), usual), "both ways of leaving out say the same"


def test_near_duplicates_that_are_not_kept_singly():
    """Three groups of 25 a class, more than are kept singly: no group can be left out whole, so nothing is refused."""
    assert refused_share(draws([3] * 6, 25, NEAR)) == 0
