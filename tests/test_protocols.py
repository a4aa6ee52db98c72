import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay import make_stream
from protoreplay.data import ImageSet, digits
from protoreplay.errors import UserError
from protoreplay.protocols import PROTOCOLS, Task


def test_digits_have_a_fixed_test_split():
    dataset = digits.load()
    assert (len(dataset.train), len(dataset.test)) == (1297, 500)
    assert dataset.test.labels.bincount().tolist() == [50] * 10
    assert dataset.train.images.shape[1:] == (1, 8, 8)
    assert int(dataset.train.images.max()) == 255
    together = torch.cat([dataset.train.images, dataset.test.images]).flatten(1)
    assert torch.equal(together.float().mul(16 / 255).round().unique(), torch.arange(17.0))


def test_image_sets_refuse_what_would_fail_later():
    images, labels = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1])
    ImageSet(images, labels, ("a", "b"))
    with pytest.raises(ValueError, match="uint8"):
        ImageSet(images.float(), labels, ("a", "b"))
    with pytest.raises(ValueError, match="one per image"):
        ImageSet(images, labels[:1], ("a", "b"))
    with pytest.raises(ValueError, match="no class name"):
        ImageSet(images, labels, ("a",))


def test_split_digits_is_two_classes_and_then_one_at_a_time():
    stream = make_stream("split-digits", seed=3)
    assert [task.classes for task in stream] == [(0, 1), *[(c,) for c in range(2, 10)]]
    assert stream.known_classes() == list(range(2, 11))
    for task in stream:
        assert task.labels.bincount(minlength=10)[list(task.classes)].tolist() == [10] * len(task.classes)
        images, labels = stream.test_set(task.position)
        assert len(images) == 50 * len(task.classes)
        assert set(labels.tolist()) == set(task.classes)


def test_permuted_digits_bring_all_classes_in_ten_pixel_orders():
    stream = make_stream("permuted-digits", seed=3)
    plain = digits.load()
    assert len(stream) == 10
    assert stream.known_classes() == [10] * 10
    assert len(stream.task(1).labels) == len(plain.train)
    assert torch.equal(
        stream.task(1).images.sum((1, 2, 3)).sort().values, plain.train.images.sum((1, 2, 3)).sort().values
    )
    orders = set()
    for position in range(2, 11):
        task = stream.task(position)
        assert task.labels.bincount().tolist() == [10] * 10
        plan = stream.plans[position - 1]
        original = plain.train.images[plan.train].flatten(1)
        assert torch.equal(task.images.flatten(1), original[:, plan.pixels])
        assert sorted(plan.pixels.tolist()) == list(range(64))
        images, _ = stream.test_set(position)
        assert torch.equal(images.flatten(1), plain.test.images[plan.test].flatten(1)[:, plan.pixels])
        orders.add(tuple(plan.pixels.tolist()))
    assert len(orders) == 9


@pytest.mark.parametrize("name", PROTOCOLS)
def test_same_seed_same_draw_other_seed_other_draw(name):
    assert make_stream(name, seed=5).shots() == make_stream(name, seed=5).shots()
    assert make_stream(name, seed=5).shots() != make_stream(name, seed=6).shots()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_shots_repeat_the_draw(name):
    stream = make_stream(name, seed=2)
    train = digits.load().train
    for shots, task in zip(stream.shots(), stream, strict=True):
        images = train.images[shots["train"]]
        if shots["pixels"]:
            images = images.flatten(1)[:, shots["pixels"]].view_as(images)
        assert torch.equal(images, task.images)
        assert train.labels[shots["train"]].tolist() == task.labels.tolist()
        assert shots["classes"] == list(task.classes)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 10), st.integers(1, 4), st.sampled_from(["sorted", "random"]), st.integers(0, 99))
def test_every_class_comes_once(first, per_task, order, seed):
    stream = make_stream(
        "split-digits", seed, first_classes=first, classes_per_task=per_task, class_order=order, shots=1
    )
    classes = [label for task in stream for label in task.classes]
    assert sorted(classes) == list(range(10))
    assert len(stream.task(1).classes) == first
    if order == "sorted":
        assert classes == sorted(classes)


def test_numbers_can_be_changed():
    assert len(make_stream("split-digits", tasks=4)) == 4
    assert len(make_stream("permuted-digits", tasks=3)) == 3
    stream = make_stream("split-digits", shots=5, first_shots=7)
    assert [len(task.labels) for task in stream][:2] == [14, 5]


def test_the_shots_of_a_class_do_not_depend_on_other_numbers():
    few, usual = make_stream("split-digits", 4, tasks=2), make_stream("split-digits", 4)
    assert few.shots() == usual.shots()[:2]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_validation_streams_never_touch_test_images(name):
    stream = make_stream(name, seed=1000, evaluation="validation")
    train = digits.load().train
    assert stream.test is train
    shots = {index for plan in stream.plans for index in plan.train.tolist()}
    held_out = {index for plan in stream.plans for index in plan.test.tolist()}
    assert not shots & held_out
    for plan in stream.plans:
        assert train.labels[plan.test].bincount(minlength=10)[list(plan.classes)].tolist() == [50] * len(plan.classes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shots": 0}, "shots=0: input should be greater than or equal to 1"),
        ({"shots": 1000}, "1000 shots of class '0' are asked for: it has 128 training images"),
        ({"tasks": 20}, "tasks=20: these classes make 1 to 9 tasks"),
        ({"first_classes": 11}, "first_classes=11: the data has only 10 classes"),
        ({"class_order": "up"}, "class_order=up: input should be 'sorted' or 'random'"),
        ({"shot": 5}, r"unknown setting 'shot' of split-digits \(did you mean shots\?\); known: class_order, "),
    ],
)
def test_a_wrong_number_is_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message) as error:
        make_stream("split-digits", **settings)
    assert "\n" not in str(error.value)


def test_a_task_refuses_labels_that_are_not_its_classes():
    with pytest.raises(ValueError, match="task 1 has images of classes"):
        Task(1, (0, 1), torch.zeros(1, 1, 8, 8, dtype=torch.uint8), torch.tensor([0]))
