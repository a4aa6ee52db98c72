"""The references in closed form against known answers: one regression on everything, dense formulas, kernels."""

import numpy as np
import pytest
import torch
from sklearn.covariance import oas
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit, cross_val_score
from torch.nn import functional

from protoreplay.encoders.dictionary import DictionarySettings
from protoreplay.methods.base import MethodContext
from protoreplay.methods.fecam import correlation_inverse
from protoreplay.methods.klda import oas_shrinkage, scale_gamma
from protoreplay.methods.logistic import C_VALUES, even_draw
from protoreplay.methods.ranpac import RIDGES
from protoreplay.methods.registry import METHODS, configure
from protoreplay.streams.protocols import PROTOCOLS, get_protocol
from protoreplay.testing import check_method
from tests.conftest import toy_task

TASKS = [toy_task(1, (3, 8), shots=6), toy_task(2, (5,), shots=9), toy_task(3, (0,), shots=1), toy_task(4, (3, 5))]
SEEN = torch.tensor([0, 3, 5, 8])


def taught(name, tasks=TASKS, **settings):
    entry = METHODS.get(name)
    method = entry.build(entry.settings({}, settings, name), MethodContext((1, 8, 8), 10))
    for task in tasks:
        method.learn(task)
    return method


def noise(count=30):
    return torch.randint(0, 256, (count, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def everything(tasks=TASKS):
    return torch.cat([task.images for task in tasks]), torch.cat([task.labels for task in tasks])


@pytest.mark.parametrize("width", [7, 200])
@pytest.mark.parametrize("name", ["ranpac", "acil"])
def test_tasks_one_by_one_give_the_ridge_regression_on_everything(name, width):
    """Be there more images than random features or fewer, and though classes come back."""
    method = taught(name, expansion=width, ridge=0.03)
    images, labels = everything()
    model = Ridge(alpha=0.03, fit_intercept=False)
    model.fit(method.expanded(method.embed(images)).double().numpy(), (labels[:, None] == SEEN).double().numpy())
    np.testing.assert_allclose(
        method.weights().numpy().T, model.coef_, rtol=1e-3, atol=1e-5
    )  # features of single precision
    scores = model.predict(method.expanded(method.embed(noise())).double().numpy())
    assert torch.equal(method.predict(noise()), SEEN[torch.from_numpy(scores).argmax(1)])
    kept = {item.name: item.numbers for item in method.ledger()}
    rank = min(width, len(labels))
    assert kept["regression"] == rank * width - rank * (rank - 1) // 2 + 1 + rank * 4


def test_ranpac_takes_the_ridge_with_the_smallest_error_on_a_fifth_of_the_task():
    method = taught("ranpac", TASKS[:2], expansion=50)
    task = TASKS[1]
    order = torch.randperm(9, generator=method.generator("split", 2))
    rows = method.expanded(method.embed(task.images[order])).double().numpy()
    wanted = (task.labels[order][:, None] == torch.tensor([3, 5, 8])).double().numpy()
    errors = []
    for ridge in RIDGES:
        inner = rows[:7] @ rows[:7].T + ridge * np.eye(7)
        errors.append(((rows[7:] @ rows[:7].T @ np.linalg.solve(inner, wanted[:7]) - wanted[7:]) ** 2).mean())
    assert float(method.ridge) == RIDGES[int(np.argmin(errors))]
    before = float(method.ridge)
    method.learn(TASKS[2])  # one image cannot be split
    assert float(method.ridge) == before


def test_gkeal_with_every_image_a_centre_is_the_regression_in_the_kernel():
    """Without a ridge, the weights of centres that are the images themselves interpolate in the kernel's space."""
    task = TASKS[0]
    method = taught("acil", [task], features="pixels", layer="gaussian", expansion=12, sigma=2.0, ridge=1e-11)
    x, z = method.embed(task.images).double(), method.embed(noise()).double()
    kernel, asked = (torch.exp(-(torch.cdist(rows, x) ** 2) / 8) for rows in (x, z))
    expected = asked @ torch.linalg.solve(kernel, (task.labels[:, None] == torch.tensor([3, 8])).double())
    found = method.expanded(method.embed(noise())).double() @ method.weights()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert taught("acil", layer="gaussian", expansion=40).layer.isfinite().all()


def test_fecam_without_a_covariance_is_the_nearest_unit_mean():
    """Of classes of one image, and where the identity outweighs what was seen."""
    single = [toy_task(position, (label,), shots=1) for position, label in enumerate((2, 7, 4), start=1)]
    for tasks, settings in ((single, {}), (TASKS, {"shrink_diagonal": 1e9, "shrink_rest": 0.0, "power": 1.0})):
        for covariance in ("class", "common"):
            method = taught("fecam", tasks, features="pixels", covariance=covariance, **settings)
            means = functional.normalize(method.transformed(method.prototypes.mean))
            x = functional.normalize(method.transformed(method.embed(noise())))
            nearest = torch.cdist(x, means).argmin(1)
            assert torch.equal(method.predict(noise()), method.prototypes.classes[nearest])


@pytest.mark.parametrize(("rows", "diagonal", "rest"), [(4, 1.0, 1.0), (30, 1.0, 1.0), (4, 2.0, 0.0)])
def test_fecams_inverse_is_that_of_the_dense_formula(rows, diagonal, rest):
    factor = torch.randn(rows, 12, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    factor[:, 6:] -= factor[:, :6]  # so that the mean covariance is below 0
    covariance, one = factor.T @ factor, torch.eye(12, dtype=torch.float64)
    level, between = covariance.diagonal().mean(), (covariance * (1 - one)).sum() / (12 * 11)
    shrunk = covariance + diagonal * level * one + rest * between * (1 - one)
    scale = shrunk.diagonal().rsqrt()
    found = correlation_inverse(factor, diagonal, rest)
    dense = found.scale.diag() - found.rows.T @ (found.weight[:, None] * found.rows)
    torch.testing.assert_close(dense, torch.linalg.inv(scale[:, None] * shrunk * scale))
    plain = correlation_inverse(factor, diagonal, rest, normalise=False)
    dense = plain.scale.diag() - plain.rows.T @ (plain.weight[:, None] * plain.rows)
    torch.testing.assert_close(dense, torch.linalg.inv(shrunk))


def test_fecam_answers_with_each_classs_own_covariance():
    tasks = TASKS[:2]
    method = taught("fecam", tasks, features="pixels")
    images, labels = everything(tasks)
    x, distances = functional.normalize(method.transformed(method.embed(noise()))), []
    for label in (3, 5, 8):
        own = method.embed(images[labels == label])
        found = correlation_inverse(
            torch.linalg.cholesky(torch.cov(method.transformed(own).T) + 1e-12 * torch.eye(64)).T, 1, 1
        )
        apart = x - functional.normalize(method.transformed(own.mean(0, keepdim=True)))
        distances.append(
            (apart.square() * found.scale).sum(1) - ((apart @ found.rows.T).square() * found.weight).sum(1)
        )
    expected = (-torch.stack(distances, 1)).softmax(1).float()
    torch.testing.assert_close(method.predict_proba(noise()), expected, rtol=1e-4, atol=1e-5)


def kernel_lda(x, labels, z, gamma, shrinkage, width):
    """Scores, N x K, of the shrunk linear discriminant in the space of the exact Gaussian kernel, up to a constant."""
    classes = labels.unique()
    share = functional.one_hot(torch.searchsorted(classes, labels)).double()
    average = share / share.sum(0)
    kernel, asked = (torch.exp(-gamma * torch.cdist(rows, x) ** 2) for rows in (x, z))
    centring = torch.eye(len(x), dtype=torch.float64) - share @ average.T
    inner = centring @ kernel @ centring.T  # products of differences from class means
    level = inner.trace() / len(x) / width
    ridge = shrinkage * level * len(x) / (1 - shrinkage)
    whole = inner + ridge * torch.eye(len(x), dtype=torch.float64)

    def product(a, b, ab):  # a^T (S + ridge)^-1 b from products with the images, by Woodbury's identity
        return (ab - (a @ centring.T) @ torch.linalg.solve(whole, (b @ centring.T).T)) / ridge

    at_means = average.T @ kernel
    cross = product(asked, at_means, asked @ average)
    own = product(at_means, at_means, average.T @ kernel @ average).diagonal()
    return (cross - own / 2) * len(x) / (1 - shrinkage)


def test_klda_comes_to_the_answer_in_the_kernels_space_as_its_features_grow():
    tasks = TASKS[:3]
    images, labels = everything(tasks)
    errors = []
    for width in (100, 20_000):
        method = taught("klda", tasks, features="pixels", gamma=0.05, shrinkage=0.4, expansion=width)
        x, z = method.embed(images).double(), method.embed(noise()).double()
        # The mean eigenvalue is that of so many dimensions: the same ridge for both.
        exact = kernel_lda(x, labels, z, 0.05, 0.4, width)
        exact = exact - exact.mean(1, keepdim=True)
        means, directions = method.means.mean.double(), method.discriminants()
        apart = means - means.mean(0)
        found = (method.fourier(z.float()).double() - means.mean(0)) @ directions.T - (apart * directions).sum(1) / 2
        found = (found - found.mean(1, keepdim=True))[:, method.means.classes.argsort()]
        errors.append(((found - exact).norm() / exact.norm()).item())
    assert errors[1] < min(0.15, errors[0] / 7)  # by the root of 200, but for chance


def test_klda_scales_and_shrinks_as_scikit_learn_does():
    method = taught("klda", TASKS[:2], features="pixels", expansion=30)
    first = method.embed(TASKS[0].images)
    assert float(method.fourier.gamma) == pytest.approx(1 / (64 * first.numpy().var()), rel=1e-5)
    assert float(scale_gamma(torch.ones(2, 3))) == 1
    rows = torch.cat(
        [
            own - own.mean(0)
            for task in TASKS[:2]
            for own in method.by_class(task, method.fourier(method.embed(task.images)))
        ]
    )
    expected = oas(rows.double().numpy(), assume_centered=True)[1]
    assert oas_shrinkage(method.scatter.factor.dense(30), len(rows)) == pytest.approx(expected, rel=1e-6)


def test_kldas_pseudo_inverse_is_the_covariances():
    method = taught("klda", TASKS[:2], expansion=30, shrinkage=0.0)
    factor = method.scatter.factor.dense(30).numpy()
    apart = (method.means.mean - method.means.mean.mean(0)).double().numpy()
    expected = apart @ np.linalg.pinv(factor.T @ factor / int(method.scatter.images), rcond=1e-10)
    np.testing.assert_allclose(method.discriminants().numpy(), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_simplecil_is_the_largest_cosine_to_a_class_mean():
    method = taught("simplecil", TASKS[:3])
    images, labels = everything(TASKS[:3])
    means = torch.stack([method.embed(images[labels == label]).mean(0) for label in SEEN])
    cosines = functional.cosine_similarity(method.embed(noise())[:, None], means[None], dim=2)
    assert torch.equal(method.predict(noise()), SEEN[cosines.argmax(1)])
    torch.testing.assert_close(method.predict_proba(noise()), cosines.softmax(1))


def test_logistic_is_scikit_learns_on_all_features():
    method = taught("logistic", c=10.0)
    images, labels = everything()
    x = method.embed(images).double().numpy()
    model = LogisticRegression(C=10.0, tol=1e-8, max_iter=10_000).fit(x, labels.numpy())
    expected = model.predict_proba(method.embed(noise()).double().numpy())
    np.testing.assert_allclose(method.predict_proba(noise()).numpy(), expected, atol=1e-4)
    kept = {item.name: item.numbers for item in method.ledger()}
    assert kept["stored"] == x.size + len(x)


def test_logistic_chooses_the_c_with_which_folds_that_are_left_out_are_likeliest():
    method = taught("logistic", TASKS[:1], features="pixels", folds=3)
    x, columns = method.stored.rows.double(), method.columns(method.stored.labels)
    drawn = even_draw(columns, 1000, method.generator("cross-validation", 12))
    fold = torch.arange(6).repeat_interleave(2) % 3  # classes by turns
    x, columns = x[drawn].numpy(), columns[drawn].numpy()
    likelihood = [
        cross_val_score(
            LogisticRegression(C=c, max_iter=1000), x, columns, cv=PredefinedSplit(fold.numpy()), scoring="neg_log_loss"
        ).mean()
        for c in C_VALUES
    ]
    best = C_VALUES[int(np.argmax(likelihood))]
    fixed = taught("logistic", TASKS[:1], features="pixels", c=best)
    torch.testing.assert_close(method.head.weight, fixed.head.weight)


@pytest.mark.parametrize("name", ["nearest-mean", "slda", "simplecil"])
def test_dictionary_features_are_vprs(name):
    small = {"patch": 4, "latent": 12, "filters": 20, "mirror": False}
    vpr = taught("vpr", TASKS[:2], views=1, augment_shift=0, **small)
    method = taught(
        name, TASKS[:2], features="dictionary", **{f"dictionary_{key}": value for key, value in small.items()}
    )
    assert torch.equal(method.embed(noise()), vpr.embed(noise()))


@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_the_dictionary_is_that_of_vpr_on_the_same_protocol(name):
    protocol = get_protocol(name)
    vpr = configure("vpr", protocol, {})
    own = configure("fecam", protocol, {"features": "dictionary"}).dictionary()
    assert own == DictionarySettings(**{key: getattr(vpr, key) for key in DictionarySettings.model_fields})
    written = configure("nearest-mean", protocol, {}).model_dump()
    assert not [key for key in written if key.startswith("dictionary_")]  # runs of before are still the same runs


def test_a_reference_on_the_dictionary_keeps_the_contract():
    small = {"dictionary_patch": 4, "dictionary_latent": 12, "dictionary_filters": 20, "expansion": 30}
    check_method("ranpac", {"features": "dictionary", **small})
