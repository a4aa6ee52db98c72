import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.gaussians import (
    Gaussian,
    PrototypeBank,
    antithetic_noise,
    class_probabilities,
    class_scores,
    group_means,
    independent_noise,
)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32))
def test_samples_have_the_mean_and_variance_they_should(seed):
    random = torch.Generator().manual_seed(seed)
    gaussian = Gaussian(torch.randn(2, 3, generator=random), torch.randn(2, 3, generator=random))
    samples = gaussian.sample(torch.randn(20_000, 2, 3, generator=random))
    std = (0.5 * gaussian.logvar).exp()
    assert ((samples.mean(0) - gaussian.mean).abs() < 6 * std / math.sqrt(20_000)).all()
    torch.testing.assert_close(samples.std(0), std, rtol=0.05, atol=0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 2**32))
def test_prototypes_are_plain_averages(labels, seed):
    groups = torch.tensor(labels).unique(return_inverse=True)[1]
    random = torch.Generator().manual_seed(seed)
    gaussian = Gaussian(torch.randn(len(groups), 3, generator=random), torch.randn(len(groups), 3, generator=random))
    count = int(groups.max()) + 1
    prototypes = group_means(gaussian, groups, count)
    for group in range(count):
        torch.testing.assert_close(prototypes.mean[group], gaussian.mean[groups == group].mean(0))
        torch.testing.assert_close(prototypes.logvar[group], gaussian.logvar[groups == group].mean(0))


def test_bank_finds_prototypes_by_task_and_class():
    bank = PrototypeBank(
        Gaussian(torch.zeros(4, 2), torch.zeros(4, 2)), torch.tensor([1, 1, 2, 2]), torch.tensor([5, 7, 5, 9])
    )
    rows = bank.index(torch.tensor([2, 1, 2, 3]), torch.tensor([5, 7, 7, 5]))
    assert rows.tolist() == [2, 1, -1, -1]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 2**32))
def test_class_of_the_nearest_prototype_is_the_most_probable(prototypes, classes, seed):
    random = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(6, prototypes, generator=random).softmax(1)
    owners = torch.randint(0, classes, (prototypes,), generator=random) * 3
    known = owners.unique()
    result = class_probabilities(probabilities, owners, known)
    torch.testing.assert_close(result.sum(1), torch.ones(6))
    assert (known[result.argmax(1)] == owners[probabilities.argmax(1)]).all()


@pytest.mark.parametrize("samples", [1, 4, 5])
def test_noise_is_normal_and_where_wanted_in_pairs_of_opposite_sign(samples):
    noise = antithetic_noise(samples, 3, 4000, torch.Generator().manual_seed(0))
    drawn = (samples + 1) // 2
    assert noise.shape == (samples, 3, 4000)
    assert torch.equal(noise[drawn:], -noise[: samples - drawn])
    assert noise[:drawn].flatten(1).corrcoef().allclose(torch.eye(drawn), atol=0.05)
    assert noise.flatten(1).mean(1).abs().max() < 0.05
    assert noise.flatten(1).std(1).sub(1).abs().max() < 0.05
    free = independent_noise(samples, 3, 4000, torch.Generator().manual_seed(0))
    assert free.flatten(1).corrcoef().allclose(torch.eye(samples), atol=0.05)


def test_the_score_of_a_class_is_that_of_its_best_prototype():
    scores = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 0.0]])
    assert class_scores(scores, torch.tensor([0, 1, 0])).tolist() == [[2.0, 5.0], [4.0, 3.0]]
