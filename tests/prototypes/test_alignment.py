import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.prototypes.alignment import likeliest_order


def domain(seed, images_per_class=6, classes=5, dim=30, noise=0.02):
    random = torch.Generator().manual_seed(seed)
    means = torch.rand(classes, dim, generator=random)
    groups = torch.arange(classes).repeat(images_per_class)
    x = means[groups] + noise * torch.randn(len(groups), dim, generator=random)
    return x, groups, means, torch.full((dim,), noise**2), torch.randperm(dim, generator=random)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_an_order_that_can_be_told_is_found(seed):
    x, groups, means, variances, shuffled = domain(seed)
    order = likeliest_order(x[:, shuffled], groups, means, variances)
    torch.testing.assert_close(x[:, shuffled][:, order], x)


def test_images_in_the_old_order_stay_as_they_are():
    x, groups, means, variances, _ = domain(0)
    assert likeliest_order(x, groups, means, variances).tolist() == list(range(30))


def test_the_order_of_the_images_does_not_matter():
    x, groups, means, variances, shuffled = domain(1, noise=0.2)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    first = likeliest_order(x[:, shuffled], groups, means, variances)
    assert torch.equal(first, likeliest_order(x[rows][:, shuffled], groups[rows], means, variances))


def test_dimensions_of_one_mean_are_told_apart_by_their_variance():
    random = torch.Generator().manual_seed(3)
    groups = torch.zeros(200, dtype=torch.int64)
    spread = torch.tensor([0.1, 1.0, 3.0])
    x = spread * torch.randn(200, 3, generator=random)
    order = likeliest_order(x[:, [2, 0, 1]], groups, torch.zeros(1, 3), spread.square())
    assert order.tolist() == [1, 2, 0]
