"""What every method of the registry must do."""

import pytest
import torch

from protoreplay.methods.base import MethodContext
from protoreplay.methods.registry import METHODS
from tests.conftest import toy_task

SHAPE, CLASSES = (1, 8, 8), 10
QUICK = {"encoder": "conv-small", "epochs": 3, "dim": 6, "samples": 3, "budget": 4}
QUICK |= {"filters": 30, "patch": 4, "latent": 12, "views": 1, "steps": 5}
QUICK |= {"augment_shift": 0, "augment_flip": False, "augment_colour": 0.0, "augment_erase": 0.0}


def build(name, seed=0, **settings):
    recipe = METHODS.get(name)
    return recipe.build(recipe.settings(QUICK, settings, name), MethodContext(SHAPE, CLASSES, seed))


def trains(name):
    return "epochs" in METHODS.get(name).method.Config.model_fields


def stream():
    """First two classes, then one that comes between them in number, then one alone with one image."""
    return [toy_task(1, (3, 8)), toy_task(2, (5,)), toy_task(3, (0,), shots=1)]


def taught(name, seed=0, tasks=3):
    method = build(name, seed)
    for task in stream()[:tasks]:
        method.learn(task)
    return method


@pytest.fixture(params=METHODS.names())
def name(request):
    return request.param


@pytest.fixture
def images():
    random = torch.Generator().manual_seed(9)
    return torch.randint(0, 256, (40, *SHAPE), generator=random).to(torch.uint8)


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_same_seed_same_result_to_the_bit(name, images):
    first, second = taught(name), taught(name)
    assert same(first.state(), second.state())
    assert torch.equal(first.predict_proba(images), second.predict_proba(images))


def test_another_seed_another_result(name):
    if name == "nearest-mean":
        assert same(taught(name).state(), taught(name, seed=1).state())
    else:
        assert not same(taught(name).state(), taught(name, seed=1).state())


def test_global_random_state_is_neither_read_nor_changed(name):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = taught(name)
    first.predict(stream()[0].images)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(first.state(), taught(name).state())


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_restored_state_predicts_and_continues_the_same(name, after, images):
    original = taught(name, tasks=after)
    state = original.state()
    restored = build(name)
    restored.restore(state)
    if after:
        assert torch.equal(restored.predict_proba(images), original.predict_proba(images))
    for task in stream()[after:]:
        original.learn(task)
        restored.learn(task)
    assert same(restored.state(), original.state())
    assert torch.equal(restored.predict_proba(images), original.predict_proba(images))


def test_state_is_a_snapshot(name):
    method = taught(name, tasks=1)
    state = method.state()
    copy = {key: value.clone() for key, value in state.items()}
    method.learn(stream()[1])
    assert same(state, copy)


def test_predicting_changes_nothing(name, images):
    method = taught(name, tasks=2)
    before, answers = method.state(), method.predict_proba(images)
    assert torch.equal(method.predict_proba(images), answers)
    assert same(method.state(), before)


def test_answers_do_not_depend_on_the_batch(name, images):
    method = taught(name)
    alone = torch.cat([method.predict_proba(image[None]) for image in images])
    torch.testing.assert_close(method.predict_proba(images), alone, rtol=1e-4, atol=1e-4)


def test_predicts_only_classes_seen(name, images):
    method = build(name)
    with pytest.raises(RuntimeError, match="no class"):
        method.predict(images)
    seen = set()
    for task in stream():
        method.learn(task)
        seen |= set(task.classes)
        assert method.classes == tuple(sorted(seen))
        probabilities = method.predict_proba(images)
        assert probabilities.shape == (len(images), len(seen))
        assert (probabilities >= 0).all()
        torch.testing.assert_close(probabilities.sum(1), torch.ones(len(images)))
        predictions = method.predict(images)
        assert predictions.dtype == torch.int64
        assert set(predictions.tolist()) <= seen
        assert torch.equal(predictions, torch.tensor(method.classes)[probabilities.argmax(1)])


def test_a_first_task_of_one_class_with_one_image(name):
    method = build(name)
    task = toy_task(1, (4,), shots=1)
    method.learn(task)
    assert method.predict(task.images).tolist() == [4]


def test_classes_that_come_back_in_a_later_task(name, images):
    method = build(name)
    for position in (1, 2, 3):
        method.learn(toy_task(position, (1, 6)))
    assert method.classes == (1, 6)
    assert method.predict_proba(images).shape == (len(images), 2)


def test_task_data_is_not_touched_after_learn(name, images):
    method = build(name)
    for task in stream()[:2]:
        before = task.images.clone(), task.labels.clone()
        method.learn(task)
        assert torch.equal(task.images, before[0])
        assert torch.equal(task.labels, before[1])
        answers, state = method.predict_proba(images), method.state()
        task.images.zero_()
        task.labels.fill_(9)
        assert torch.equal(method.predict_proba(images), answers)
        assert same(method.state(), state)
    last = stream()[2]
    method.learn(last)
    reference = taught(name)
    assert same(method.state(), reference.state())


def test_no_image_is_an_empty_answer(name):
    method = taught(name, tasks=1)
    assert method.predict(torch.zeros(0, *SHAPE, dtype=torch.uint8)).shape == (0,)


def test_ledger_adds_up_to_what_is_stored(name):
    method = taught(name)
    state = method.state()
    ledger = method.ledger()
    assert sum(item.numbers for item in ledger) == sum(tensor.numel() for tensor in state.values())
    assert sum(item.bytes for item in ledger) == sum(tensor.nbytes for tensor in state.values())
    assert len({item.name for item in ledger}) == len(ledger)


def test_nothing_is_carried_that_the_state_does_not_show(name):
    """Every tensor reachable from the method is in its state: the ledger cannot be fooled by a forgotten attribute."""
    method = taught(name)
    shown = sum(tensor.nbytes for tensor in method.state().values())
    seen, total, queue = set(), 0, [vars(method)]
    while queue:
        value = queue.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            total += value.nbytes
        elif isinstance(value, torch.nn.Module):
            queue += [*value.parameters(), *value.buffers()]
        elif isinstance(value, dict):
            queue += value.values()
        elif isinstance(value, list | tuple):
            queue += value
        elif hasattr(value, "__dict__"):
            queue.append(vars(value))
    assert total <= shown


def test_steps_are_reported(name):
    steps = []
    build(name).learn(stream()[0], lambda step, total, loss: steps.append((step, total, loss)))
    if trains(name):
        assert [step for step, _, _ in steps] == list(range(1, len(steps) + 1))
        assert {total for _, total, _ in steps} == {len(steps)}
        assert all(loss >= 0 for _, _, loss in steps)


def test_learns_what_is_easy(name):
    """Two very different classes, enough steps: nearly all of the training images right."""
    recipe = METHODS.get(name)
    config = recipe.settings(QUICK, {"epochs": 60} if trains(name) else {}, name)
    method = recipe.build(config, MethodContext(SHAPE, CLASSES))
    task = toy_task(1, (3, 8), shots=10)
    method.learn(task)
    assert (method.predict(task.images) == task.labels).float().mean() >= 0.9


def test_features_of_a_frozen_method_never_change(name, images):
    method = taught(name, tasks=1)
    early = method.embed(images)
    assert method.frozen or early is images
    for task in stream()[1:]:
        method.learn(task)
    assert torch.equal(method.embed(images), early)
    assert torch.equal(method.predict(early, embedded=True), method.predict(images))
