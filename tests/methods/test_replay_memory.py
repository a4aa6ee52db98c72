import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay.methods.replay_memory import ReplayMemory, quota
from tests.conftest import toy_task

NOTHING = torch.zeros(0, 1, 8, 8, dtype=torch.uint8)


def contents(memory):
    return {(int(t), int(c), i.numpy().tobytes()) for t, c, i in zip(memory.tasks, memory.classes, memory.images)}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 30), st.sampled_from(["run", "class"]), st.integers(0, 2**32))
def test_holds_the_quota_of_each_class_and_only_shrinks(budget, per, seed):
    memory = ReplayMemory.empty(NOTHING)
    groups = [(0, 1), (2,), (3, 4, 5), (6,)]
    pairs = 0
    for position, classes in enumerate(groups, start=1):
        task = toy_task(position, classes, shots=10)
        before, pairs = contents(memory), pairs + len(classes)
        share = quota(budget, per, pairs)
        memory = memory.after(task, share, torch.Generator().manual_seed(seed + position))
        assert share == (budget // pairs if per == "run" else budget)
        for earlier, members in enumerate(groups[:position], start=1):
            for label in members:
                held = (memory.tasks == earlier) & (memory.classes == label)
                assert int(held.sum()) == min(share, 10)
        old = {item for item in contents(memory) if item[0] < position}
        assert old <= before
        new_images = {image.numpy().tobytes() for image in task.images}
        assert all(item[2] in new_images for item in contents(memory) - old)


def test_every_image_has_the_same_chance():
    task = toy_task(1, (0,), shots=5)
    kept = torch.zeros(5)
    for seed in range(400):
        memory = ReplayMemory.empty(NOTHING).after(task, 2, torch.Generator().manual_seed(seed))
        for image in memory.images:
            kept[(task.images == image).flatten(1).all(1)] += 1
    assert kept.sum() == 800
    assert ((kept / 400 - 0.4).abs() < 0.1).all()


def test_does_not_hold_on_to_the_task():
    task = toy_task(1, (0, 1))
    memory = ReplayMemory.empty(NOTHING).after(task, 2, torch.Generator().manual_seed(0))
    before = contents(memory)
    task.images.zero_()
    task.labels.zero_()
    assert contents(memory) == before
