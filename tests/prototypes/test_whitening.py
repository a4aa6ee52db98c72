import pytest
import torch

from protoreplay.core.progress import ignore_steps
from protoreplay.prototypes import whitening as layers


def covariance(dim=6, seed=0):
    root = torch.randn(dim, 2 * dim, generator=torch.Generator().manual_seed(seed))
    return root @ root.T


def test_whitening_makes_the_shrunk_covariance_the_identity():
    whole = covariance()
    layer, root = layers.whitening(whole, 0.5)
    shrunk = whole + 0.5 * whole.diagonal().mean() * torch.eye(6)
    torch.testing.assert_close(layer @ shrunk @ layer.T, torch.eye(6), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(root @ root.T, whole, rtol=1e-4, atol=1e-4)


def test_variances_alone_give_the_layer_of_a_diagonal_covariance():
    variances = torch.tensor([0.5, 1.0, 4.0])
    layer, root = layers.whitening(variances, 1.0)
    whole_layer, whole_root = layers.whitening(variances.diag(), 1.0)
    torch.testing.assert_close(layer.diag(), whole_layer)
    torch.testing.assert_close(root.diag(), whole_root)
    x = torch.randn(4, 3)
    torch.testing.assert_close(layers.apply(layer, x), layers.apply(whole_layer, x))


def test_images_that_do_not_vary_leave_the_layer_finite():
    layer, root = layers.whitening(torch.zeros(3, 3), 1.0)
    torch.testing.assert_close(layer, torch.eye(3))
    assert not root.any()


def episode(random, noise):
    """Two classes that differ in the first dimension alone; the second is louder and says nothing."""

    def draw():
        x = noise * torch.randn(2, 10, 2, generator=random)
        x[1, :, 0] += 1
        return x[:, :5], x[:, 5:]

    return draw


def test_training_finds_the_direction_that_tells_classes_apart():
    random = torch.Generator().manual_seed(0)
    losses = []
    noise = torch.tensor([0.3, 3.0])
    trained = layers.train(
        torch.eye(2), episode(random, noise), torch.tensor([0, 1]), 200, 0.02, lambda *told: losses.append(told[2])
    )
    assert len(losses) == 200
    assert sum(losses[-50:]) < 0.7 * sum(losses[:50])
    assert trained[:, 0].norm() > 2 * trained[:, 1].norm()


def test_no_steps_leave_the_layer_as_it_was():
    layer = covariance(2)
    assert torch.equal(layers.train(layer, None, torch.tensor([0, 1]), 0, 0.1, ignore_steps), layer)


def test_the_score_of_a_class_is_that_of_its_best_prototype():
    scores = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 0.0]])
    assert layers.class_scores(scores, torch.tensor([0, 1, 0])).tolist() == [[2.0, 5.0], [4.0, 3.0]]


@pytest.mark.parametrize("truth", [0.1, 1.0, 25.0])
def test_the_temperature_that_made_the_labels_is_found(truth):
    random = torch.Generator().manual_seed(1)
    scores = 5 * truth * torch.randn(4000, 3, generator=random)
    targets = torch.multinomial((scores / truth).softmax(1), 1, generator=random).flatten()
    assert layers.best_temperature(layers.losses(scores, targets)) == pytest.approx(truth, rel=0.3)


def test_answers_that_were_all_right_make_no_certainty():
    scores, targets = 100 * torch.eye(3), torch.arange(3)
    found = layers.losses(scores, targets)
    temperature = layers.best_temperature(found)
    assert temperature > layers.TEMPERATURES.min()
    loss = torch.nn.functional.cross_entropy(scores / temperature, targets, reduction="sum")
    assert 0.1 < loss <= layers.DOUBT


def test_losses_add_up():
    scores, targets = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    parts = layers.losses(scores[:5], targets[:5]) + layers.losses(scores[5:], targets[5:])
    torch.testing.assert_close(layers.losses(scores, targets), parts)


def test_scores_of_an_image_left_out_are_those_of_the_covariance_without_it():
    random = torch.Generator().manual_seed(0)
    x, prototypes = torch.randn(4, 6, generator=random), torch.randn(4, 3, 6, generator=random)
    added = 0.2 * torch.randn(4, 2, 6, generator=random)
    found = layers.left_out_scores(x, prototypes, added, 0.7)
    for image, own, rows, scores in zip(x, prototypes, added, found, strict=True):
        inverse = torch.linalg.inv(torch.eye(6) - rows.T @ rows)
        expected = own @ inverse @ image - 0.35 * (own @ inverse * own).sum(1)
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)


def test_steps_are_those_of_adam():
    start = torch.tensor([[1.0, 0.2], [0.0, 2.0]])
    x = torch.randn(2, 10, 2, generator=torch.Generator().manual_seed(0)) + torch.tensor([[[0.0, 0.0]], [[1.0, 0.5]]])
    support, query = x[:, :5], x[:, 5:]
    owners = torch.tensor([0, 1])
    trained = layers.train(start, lambda: (support, query), owners, 30, 0.01, ignore_steps)
    layer = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([layer], lr=0.01 * start.square().mean().sqrt().item())
    temperature = None
    for _ in range(30):
        distances = torch.cdist(query.flatten(0, 1) @ layer.T, support.mean(1) @ layer.T).square()
        temperature = temperature or distances.detach().std(1).mean() / 2
        loss = torch.nn.functional.cross_entropy(-distances / temperature, owners.repeat_interleave(5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(trained, layer.detach(), rtol=1e-4, atol=1e-5)
