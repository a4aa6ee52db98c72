import numpy as np
import pytest
import torch

from protoreplay.methods.base import MethodContext
from protoreplay.methods.slda import SLDA, SLDAConfig
from tests.conftest import toy_task

TASKS = [toy_task(1, (3, 8), shots=6), toy_task(2, (5,), shots=9), toy_task(3, (0,), shots=2)]


def slda(**settings):
    return SLDA(SLDAConfig(**{"encoder": "conv-small", **settings}), MethodContext((1, 8, 8), 10))


@pytest.mark.parametrize("features", ["pixels", "random", "encoder"])
@pytest.mark.parametrize("shrinkage", [1e-2, 0.5, 1.0])
def test_a_stream_gives_the_discriminant_of_all_images_together(features, shrinkage):
    method = slda(features=features, shrinkage=shrinkage, filters=20)
    for task in TASKS:
        method.learn(task)
    x = torch.cat([method.embed(task.images) for task in TASKS]).double().numpy()
    y = torch.cat([task.labels for task in TASKS]).numpy()
    means = np.stack([x[y == label].mean(0) for label in method.classes])
    centred = x - means[np.searchsorted(method.classes, y)]
    covariance = centred.T @ centred / len(x)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    images = torch.randint(0, 256, (30, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    offsets = method.embed(images).double().numpy()[:, None] - means
    scores = -0.5 * np.einsum("nkd,nkd->nk", offsets @ np.linalg.inv(shrunk), offsets)
    expected = torch.tensor(scores - scores.mean(1, keepdims=True))
    found = method.scores(method.embed(images)).double()
    found = (found - found.mean(1, keepdim=True))[:, method.prototypes.classes.argsort()]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * expected.abs().max().item())
    assert torch.equal(method.predict(images), torch.tensor(method.classes)[expected.argmax(1)])


def test_the_order_of_tasks_does_not_matter():
    forward, backward = slda(), slda()
    for task in TASKS:
        forward.learn(task)
    for task in reversed(TASKS):
        backward.learn(task)
    for task in TASKS:
        torch.testing.assert_close(
            forward.predict_proba(task.images), backward.predict_proba(task.images), rtol=1e-3, atol=1e-5
        )


def test_images_that_do_not_vary_make_it_the_nearest_mean():
    method = slda(features="pixels")
    for position, label in enumerate((2, 7), start=1):
        method.learn(toy_task(position, (label,), shots=1))
    images = torch.randint(0, 256, (30, 1, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    nearest = torch.cdist(method.embed(images), method.prototypes.mean).argmin(1)
    assert torch.equal(method.predict(images), torch.tensor([2, 7])[nearest])
