import torch

from protoreplay.core.progress import ignore_steps
from protoreplay.prototypes.layer_training import train_layer
from protoreplay.prototypes.whitening import DenseMatrix


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
    trained = train_layer(
        DenseMatrix(torch.eye(2)),
        episode(random, noise),
        torch.tensor([0, 1]),
        200,
        0.02,
        lambda *told: losses.append(told[2]),
    )
    assert len(losses) == 200
    assert sum(losses[-50:]) < 0.7 * sum(losses[:50])
    assert trained.values[:, 0].norm() > 2 * trained.values[:, 1].norm()


def test_no_steps_leave_the_layer_as_it_was():
    layer = DenseMatrix(torch.tensor([[1.0, 0.5], [0.2, 3.0]]))
    assert torch.equal(train_layer(layer, None, torch.tensor([0, 1]), 0, 0.1, ignore_steps).values, layer.values)


def test_steps_are_those_of_adam():
    start = torch.tensor([[1.0, 0.2], [0.0, 2.0]])
    x = torch.randn(2, 10, 2, generator=torch.Generator().manual_seed(0)) + torch.tensor([[[0.0, 0.0]], [[1.0, 0.5]]])
    support, query = x[:, :5], x[:, 5:]
    owners = torch.tensor([0, 1])
    trained = train_layer(DenseMatrix(start), lambda: (support, query), owners, 30, 0.01, ignore_steps)
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
    torch.testing.assert_close(trained.values, layer.detach(), rtol=1e-4, atol=1e-5)
