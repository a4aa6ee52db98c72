import pytest
import torch

from protoreplay.methods.base import MethodContext
from protoreplay.methods.replay import Replay, ReplayConfig
from tests.conftest import toy_task

TASKS = [toy_task(1, (0, 1)), toy_task(2, (2,)), toy_task(3, (3,))]


def replay(**settings):
    return Replay(
        ReplayConfig(**{"encoder": "conv-small", "epochs": 2, "budget": 6, **settings}), MethodContext((1, 8, 8), 10)
    )


def batches(monkeypatch, method, task):
    """The images and labels of each step's cross-entropy."""
    met = []
    original = Replay.cross_entropy

    def spy(self, images, targets):
        met.append((images, torch.tensor(self.classes)[targets]))
        return original(self, images, targets)

    monkeypatch.setattr(Replay, "cross_entropy", spy)
    method.learn(task)
    monkeypatch.undo()
    return met


def contains(images, image):
    return any(torch.equal(image, other) for other in images)


def test_every_batch_holds_the_new_images_and_the_memory(monkeypatch):
    method = replay()
    method.learn(TASKS[0])
    assert len(method.memory) == 6
    stored = method.memory
    met = batches(monkeypatch, method, TASKS[1])
    assert len(met) == 2
    for images, labels in met:
        assert len(images) == len(TASKS[1].labels) + 6
        for image, label in [*zip(TASKS[1].images, TASKS[1].labels), *zip(stored.images, stored.classes)]:
            assert any(torch.equal(image, a) and label == b for a, b in zip(images, labels))
    assert method.memory.classes.bincount().tolist() == [2, 2, 2]


def test_of_a_large_memory_a_batch_holds_another_draw_each_time(monkeypatch):
    method = replay(batch_size=2, budget=8)
    method.learn(TASKS[0])
    stored = method.memory.images
    met = batches(monkeypatch, method, TASKS[1])
    drawn = [tuple(contains(images[2:], image) for image in stored) for images, _ in met]
    assert all(len(images) == 4 for images, _ in met)
    assert all(sum(draw) == 2 for draw in drawn)
    assert len(set(drawn)) > 1


def test_the_first_task_replays_nothing(monkeypatch):
    met = batches(monkeypatch, replay(), TASKS[0])
    assert all(len(images) == len(TASKS[0].labels) for images, _ in met)


@pytest.mark.parametrize(("budget", "per", "kept"), [(6, "run", 1), (4, "run", 0), (2, "class", 2)])
def test_the_budget_counts_every_class_of_every_task(budget, per, kept):
    """Also where it has run out: the fourth task's images are not taken as if they were the first."""
    method = replay(budget=budget, budget_per=per)
    for position in (1, 2, 3):
        method.learn(toy_task(position, (1, 6)))
    assert len(method.memory) == 6 * kept
