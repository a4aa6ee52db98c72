import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from protoreplay.prototypes.distances import (
    Landmarks,
    common_noise_squared_distances,
    expected_squared_distances,
    moments,
    sampled_squared_distances,
    squared_distances,
)
from protoreplay.prototypes.gaussians import Gaussian

shapes = st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 40))


def brute_force(x, y, weight):
    """The definition, in double precision, one number at a time."""
    x, y = x.double(), y.double()
    result = torch.zeros(len(x), len(y), dtype=torch.float64)
    for n in range(len(x)):
        for k in range(len(y)):
            for d in range(x.shape[1]):
                w = 1.0 if weight is None else float(weight[k, d])
                result[n, k] += w * (x[n, d] - y[k, d]) ** 2
    return result


def random_tensors(seed, n, k, d, scale=1.0, offset=0.0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=random) * scale + offset
    y = torch.randn(k, d, generator=random) * scale + offset
    return x, y, (torch.randn(k, d, generator=random)).exp()


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(0, 2**32), st.booleans(), st.sampled_from([0.1, 1.0, 10.0]), st.sampled_from([0.0, 5.0]))
def test_distances_equal_a_triple_loop(shape, seed, weighted, scale, offset):
    x, y, weight = random_tensors(seed, *shape, scale, offset)
    weight = weight if weighted else None
    expected = brute_force(x, y, weight)
    squared = squared_distances(x, y, weight).double()
    torch.testing.assert_close(squared, expected, rtol=1e-4, atol=1e-4 * scale**2)
    # What is lost to rounding in a square is its square root here.
    torch.testing.assert_close(squared.sqrt(), expected.sqrt(), rtol=1e-4, atol=2e-3 * scale)


@settings(deadline=None, max_examples=30)
@given(shapes, st.integers(0, 2**32), st.booleans())
def test_a_batch_of_samples_equals_sample_by_sample(shape, seed, weighted):
    pairs = [random_tensors(seed + z, *shape) for z in range(3)]
    weight = pairs[0][2] if weighted else None
    batched = squared_distances(torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs]), weight)
    for z, (x, y, _) in enumerate(pairs):
        torch.testing.assert_close(batched[z], squared_distances(x, y, weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_coincident_points_have_distance_zero_and_a_finite_gradient(weighted, offset):
    x, y, weight = random_tensors(0, 5, 4, 500, offset=offset)
    y[:4] = x[:4]
    x.requires_grad_()
    y.requires_grad_()
    squared = squared_distances(x, y, weight if weighted else None)
    assert (squared >= 0).all()
    assert (squared.diagonal() == 0).all()
    assert (squared[4] > 0).all()
    squared.sqrt().sum().backward()
    assert x.grad.isfinite().all()
    assert y.grad.isfinite().all()
    assert x.grad.abs().max() > 0


def test_one_class_of_huge_weight_does_not_blur_the_others():
    x, y, _ = random_tensors(3, 6, 3, 20)
    weight = torch.ones(3, 20)
    weight[0] *= 1e9
    expected = brute_force(x, y, weight)
    torch.testing.assert_close(squared_distances(x, y, weight).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_is_that_of_the_definition(weighted):
    x, y, weight = (t.double().requires_grad_() for t in random_tensors(1, 4, 3, 6))
    inputs = (x, y, weight) if weighted else (x, y)
    assert torch.autograd.gradcheck(lambda *args: squared_distances(*args).sqrt(), inputs)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_image_far_away_hides_no_small_distance(weighted):
    """What counts as rounding is measured by the terms that cancel, not by other images."""
    x, y, weight = random_tensors(4, 2, 3, 20)
    x[0], x[1] = y[1] + 0.01, 1e4
    weight = weight if weighted else None
    expected = brute_force(x, y, weight)
    torch.testing.assert_close(squared_distances(x, y, weight).double(), expected, rtol=1e-2, atol=0)


def test_no_images_have_no_distances():
    x, y, weight = random_tensors(0, 0, 3, 5)
    assert squared_distances(x, y, weight).shape == (0, 3)
    assert expected_squared_distances(Gaussian(x, x), Gaussian(y, y)).shape == (0, 3)


def random_gaussians(seed, n, k, d, offset=0.0, dtype=torch.float32):
    x, y, weight = random_tensors(seed, n, k, d, offset=offset)
    random = torch.Generator().manual_seed(seed + 1)
    logvars = (torch.randn(rows, d, generator=random) for rows in (n, k))
    x, y, x_logvar, y_logvar, weight = (t.to(dtype) for t in (x, y, *logvars, weight))
    return Gaussian(x, x_logvar), Gaussian(y, y_logvar), weight


@settings(deadline=None, max_examples=40)
@given(shapes, st.integers(0, 2**32), st.booleans(), st.sampled_from([0.0, 5.0]))
def test_expected_distances_are_those_of_the_means_plus_both_variances(shape, seed, weighted, offset):
    x, y, weight = random_gaussians(seed, *shape, offset)
    weight = weight if weighted else None
    scale = torch.ones_like(y.mean) if weight is None else weight
    variances = ((x.logvar.exp()[:, None] + y.logvar.exp()) * scale).sum(-1)
    expected = brute_force(x.mean, y.mean, weight) + variances
    torch.testing.assert_close(expected_squared_distances(x, y, weight).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_landmarks_give_the_same_distances_from_any_centre(weighted):
    x, y, weight = random_gaussians(0, 4, 3, 6, dtype=torch.float64)
    weight = weight if weighted else None
    expected = expected_squared_distances(x, y, weight)
    for centre in (torch.zeros(6), torch.randn(6, generator=torch.Generator().manual_seed(1))):
        found = Landmarks.of(y, centre, weight).squared_distances(moments(x, centre))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_of_expected_distances_is_that_of_the_definition(weighted):
    x, y, weight = random_gaussians(0, 4, 3, 6, dtype=torch.float64)
    inputs = [t.requires_grad_() for t in (*x, *y, *([weight] if weighted else []))]

    def distances(x_mean, x_logvar, y_mean, y_logvar, *weight):
        return expected_squared_distances(Gaussian(x_mean, x_logvar), Gaussian(y_mean, y_logvar), *weight).sqrt()

    assert torch.autograd.gradcheck(distances, inputs)


def test_coincident_gaussians_without_variance_have_a_finite_gradient():
    mean, _, _ = random_tensors(0, 4, 4, 500)
    logvar = torch.full_like(mean, -70.0)
    x = mean.clone().requires_grad_()
    squared = expected_squared_distances(Gaussian(x, logvar), Gaussian(mean, logvar))
    assert (squared.diagonal() == 0).all()
    squared.sqrt().sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().max() > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_memory_stays_below_twice_inputs_plus_outputs(weighted):
    x, y, weight = random_tensors(0, 2000, 1000, 500)
    weight = weight if weighted else None
    given_bytes = sum(t.nbytes for t in (x, y, weight) if t is not None)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = squared_distances(x, y, weight)
    live = peak = given_bytes
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert peak >= given_bytes + result.nbytes, "the profiler saw no allocation"
    assert peak < 2 * (given_bytes + result.nbytes)


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_squared_distance_converges_to_the_closed_form(weighted):
    random = torch.Generator().manual_seed(0)
    x, y = (Gaussian(torch.randn(n, 8, generator=random), torch.randn(n, 8, generator=random)) for n in (3, 4))
    weight = (-y.logvar).exp() if weighted else None
    exact = expected_squared_distances(x, y, weight)
    errors = []
    for samples in (100, 100_000):
        noise = [torch.randn(samples, n, 8, generator=random) for n in (3, 4)]
        sampled = squared_distances(x.sample(noise[0]), y.sample(noise[1]), weight).mean(0)
        errors.append(float(((sampled - exact) / exact).abs().max()))
    assert errors[1] < 0.02
    assert errors[1] < errors[0]


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise_rows", [None, torch.tensor([0, 1, 0, 1, 2])])
def test_distances_to_samples_that_are_never_kept(trained, weighted, noise_rows):
    """The same numbers as from the samples themselves, and the same gradient of x."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, 8, generator=random, requires_grad=True)
    y = Gaussian(torch.randn(5, 8, generator=random), torch.randn(5, 8, generator=random))
    weight = (-y.logvar).exp() if weighted else None
    noise = torch.randn(4, 5 if noise_rows is None else 3, 8, generator=random)
    expected = squared_distances(x, y.sample(noise if noise_rows is None else noise[:, noise_rows]), weight)
    given = Gaussian(y.mean.requires_grad_(trained), y.logvar)
    found = sampled_squared_distances(x, given, noise.clone(), weight, noise_rows)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(each.sqrt().sum(), x)[0] for each in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert found.requires_grad


def test_distances_of_samples_with_common_noise():
    random = torch.Generator().manual_seed(0)
    x = Gaussian(torch.randn(6, 8, generator=random) + 5, torch.randn(6, 8, generator=random))
    y, noise = torch.randn(4, 3, 8, generator=random) + 5, torch.randn(4, 8, generator=random)
    expected = squared_distances(x.sample(noise[:, None]), y)
    torch.testing.assert_close(common_noise_squared_distances(x, y, noise), expected, rtol=1e-4, atol=1e-4)
    same = Gaussian(y[0], torch.full((3, 8), -200.0))
    assert (common_noise_squared_distances(same, y, noise)[0].diagonal() >= 0).all()
