import dataclasses
import hashlib
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from protoreplay import evaluate, make_method, make_stream
from protoreplay.core.errors import UserError
from protoreplay.data import digits
from protoreplay.data.catalog import DATASETS
from protoreplay.data.images import ImageSet
from protoreplay.methods.registry import METHODS
from protoreplay.streams import domains
from protoreplay.streams.protocols import PROTOCOLS, get_protocol
from protoreplay.streams.stream import Task


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


@pytest.fixture(params=PROTOCOLS)
def stream_of(request, small_cache):
    """Makes streams of each protocol; of its many images only the few that the stand-ins have."""
    few = {"first_shots": 12} if request.param == "split-mini-imagenet" else {}
    return lambda *args, **settings: make_stream(request.param, *args, **{**few, **settings})


def test_same_seed_same_draw_other_seed_other_draw(stream_of):
    assert stream_of(5).shots() == stream_of(5).shots()
    assert stream_of(5).shots() != stream_of(6).shots()


def test_shots_repeat_the_draw(stream_of):
    stream = stream_of(2)
    train = stream.train
    for shots, task in zip(stream.shots(), stream, strict=True):
        images = train.images[shots["train"]]
        if shots["pixels"]:
            images = images.flatten(1)[:, shots["pixels"]].view_as(images)
        images = domains.blurred(domains.rotated(images, shots.get("degrees", 0)), shots.get("blur", 0))
        assert torch.equal(images, task.images)
        assert train.labels[shots["train"]].tolist() == task.labels.tolist()
        assert shots["classes"] == list(task.classes)
        assert shots["sha256"] == hashlib.sha256(images.numpy().tobytes()).hexdigest()


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
    assert len(make_stream("permuted-digits", tasks=2, shots="all").task(2).labels) == 1297


def test_the_shots_of_a_class_do_not_depend_on_other_numbers():
    few, usual = make_stream("split-digits", 4, tasks=2), make_stream("split-digits", 4)
    assert few.shots() == usual.shots()[:2]


@pytest.mark.parametrize("name", ["split-digits", "permuted-digits"])
@pytest.mark.parametrize("evaluation", ["test", "validation"])
def test_fewer_test_images_are_a_draw_of_them_and_change_nothing_else(name, evaluation):
    whole, some, other = (
        make_stream(name, seed=seed, evaluation=evaluation, test_images=wanted)
        for seed, wanted in ((3, "all"), (3, 7), (4, 7))
    )
    assert [shots["sha256"] for shots in some.shots()] == [shots["sha256"] for shots in whole.shots()]
    for mine, full in zip(some.plans, whole.plans, strict=True):
        assert some.test.labels[mine.test].bincount()[list(mine.classes)].tolist() == [7] * len(mine.classes)
        assert set(mine.test.tolist()) < set(full.test.tolist())
    assert not torch.equal(some.plans[0].test, other.plans[0].test)
    settings = PROTOCOLS.get(name).settings
    assert settings({"test_images": "7"}).model_dump()["test_images"] == 7
    assert "test_images" not in settings({}).model_dump()  # so runs of before there was a choice are still the same
    most = make_stream(name, seed=3, evaluation=evaluation, test_images=10**6)
    assert all(torch.equal(a.test, b.test) for a, b in zip(most.plans, whole.plans, strict=True))


def test_validation_streams_never_touch_test_images(stream_of):
    stream = stream_of(1000, evaluation="validation")
    assert stream.test is stream.train
    shots = {index for plan in stream.plans for index in plan.train.tolist()}
    held_out = {index for plan in stream.plans for index in plan.test.tolist()}
    assert not shots & held_out
    for plan in stream.plans:
        per_class = stream.train.labels[plan.test].bincount(minlength=stream.num_classes)[list(plan.classes)]
        assert per_class.tolist() == [50 if stream.num_classes == 10 and stream.image_size == 8 else 5] * len(
            plan.classes
        )
        assert set(stream.train.labels[plan.train].tolist()) == set(plan.classes)


def test_the_papers_protocols_are_as_in_its_table(small_cache):
    cifar = make_stream("split-cifar10")
    assert [task.classes for task in cifar] == [(0, 1), *[(c,) for c in range(2, 10)]]
    assert cifar.image_shape == (3, 32, 32)
    mnist = make_stream("permuted-mnist")
    assert (len(mnist), mnist.image_shape) == (50, (1, 28, 28))
    assert [len(mnist.task(position).labels) for position in (1, 2, 50)] == [140, 100, 100]
    assert len({tuple(plan.pixels.tolist()) for plan in mnist.plans[1:]}) == 49
    mini = make_stream("split-mini-imagenet", first_shots=12)
    assert [len(task.classes) for task in mini] == [10] * 10
    assert [len(task.labels) for task in mini][:2] == [120, 100]
    few_shot = make_stream("fscil-mini-imagenet")
    assert [len(task.classes) for task in few_shot] == [60, *[5] * 8]
    assert [len(task.labels) for task in few_shot][:2] == [60 * 14, 25]


def test_images_come_at_any_size(small_cache):
    for name, size in [("split-mini-imagenet", 84), ("split-mini-imagenet", 48), ("split-cifar10", 16)]:
        few = {"first_shots": 3, "shots": 3} if "mini" in name else {}
        stream = make_stream(name, image_size=size, **few)
        assert stream.image_shape == (3, size, size)
        assert stream.task(2).images.shape[1:] == (3, size, size)
        assert stream.test_set(1)[0].shape[1:] == (3, size, size)
        assert stream.task(1).images.dtype == torch.uint8
    exact = make_stream("split-mini-imagenet", image_size=84, first_shots=3)
    assert torch.equal(exact.task(1).images, exact.train.images[exact.plans[0].train])
    assert len(make_stream("permuted-digits", image_size=16).plans[1].pixels) == 256


def test_resizing_keeps_a_flat_image_flat_and_the_mean(small_cache):
    stream = make_stream("split-cifar10", image_size=16)
    images = stream.train.images[stream.plans[0].train].float()
    assert (stream.task(1).images.float().mean((2, 3)) - images.mean((2, 3))).abs().max() < 3


@pytest.mark.parametrize("kind", ["split", "permuted"])
def test_a_folder_of_photos_is_a_stream(tmp_path, kind):
    for label, colour in enumerate(["red", "green", "blue"]):
        (tmp_path / colour).mkdir()
        for number in range(6):
            pixels = np.full((20, 30, 3), 10 * number, np.uint8)
            pixels[:, :, label] = 200
            Image.fromarray(pixels).save(tmp_path / colour / f"{number}.png")
    stream = make_stream(f"{kind}:{tmp_path}", shots=3, image_size=16, **({"tasks": 3} if kind == "permuted" else {}))
    assert stream.train.class_names == ("blue", "green", "red")
    assert stream.protocol.stream(1, stream.protocol.settings({"shots": 2, "image_size": 16})).train is stream.train
    assert [task.classes for task in stream] == ([(0, 1), (2,)] if kind == "split" else [(0, 1, 2)] * 3)
    assert stream.task(2).images.shape == ((3 if kind == "split" else 9), 3, 16, 16)
    assert len(stream.shots()) == len(stream)
    method = make_method("nearest-mean", stream)
    for task in stream:
        method.learn(task)
    images, labels = stream.test_set(1)
    assert (method.predict(images) == labels).all()
    with pytest.raises(UserError, match="class 'blue' has 4 training images, fewer than the 9 shots requested"):
        make_stream(f"{kind}:{tmp_path}", shots=9)


ARRAYS = """
import torch
from protoreplay.data.images import Dataset, ImageSet
from protoreplay.streams.protocols import PermutedSettings, Protocol

def wide():
    "Three classes of 6 x 12 pixels."
    labels = torch.arange(3).repeat(5)
    images = (labels * 80).to(torch.uint8)[:, None, None, None].expand(-1, 1, 6, 12).contiguous()
    return Dataset("wide", ImageSet(images, labels, ("a", "b", "c")), ImageSet(images, labels, ("a", "b", "c")))

MIXED = Protocol("mixed", "mixed", "digits", 0, PermutedSettings(image_size=8, tasks=2, shots=3))
"""


@pytest.fixture
def arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "arrays.py").write_text(ARRAYS)


def test_a_dataset_by_name_is_a_stream_at_its_own_size():
    stream = make_stream("split:digits", shots=3)
    assert [task.classes for task in stream] == [(0, 1), *[(c,) for c in range(2, 10)]]
    assert stream.image_shape == (1, 8, 8)
    assert get_protocol("split:digits").summary == get_protocol("permuted:digits").summary
    permuted = make_stream("permuted:digits", shots=3, tasks=2)
    assert permuted.known_classes() == [10, 10]
    assert get_protocol("permuted:digits").method_settings["budget_per"] == "class"


@pytest.mark.usefixtures("arrays")
def test_arrays_in_a_file_are_a_stream_also_where_they_are_not_square():
    stream = make_stream("split:arrays.py:wide", shots=2)
    assert stream.image_shape == (1, 12, 12)
    assert stream.task(1).images.shape == (4, 1, 12, 12)
    assert stream.test_set(2)[0].unique().tolist() == [160]
    everything = make_stream("permuted:arrays.py:wide", shots="all", tasks=2)
    assert everything.task(1).images.shape == (15, 1, 12, 12)
    with pytest.raises(UserError, match="class 'a' has 5 training images, fewer than the 6 shots requested"):
        make_stream("split:arrays.py:wide", shots=6)
    assert make_stream("split:arrays.py:wide", shots=2, image_size=6).task(1).images.shape == (4, 1, 6, 6)


@pytest.mark.usefixtures("arrays")
def test_a_protocol_in_a_file_has_the_name_it_was_asked_for_by():
    protocol = get_protocol("arrays.py:MIXED")
    assert (protocol.name, protocol.data) == ("arrays.py:MIXED", "digits")
    assert len(make_stream("arrays.py:MIXED")) == 2
    assert protocol.outline() == ("2", "all in each", "3")
    assert get_protocol("split:digits").outline() == ("all", "2, then 1", "10")


def test_a_dataset_registered_in_a_session_is_a_stream():
    DATASETS.register("my-digits", digits.load)
    try:
        assert make_stream("split:my-digits", 1, shots=3).shots() == make_stream("split-digits", 1, shots=3).shots()
    finally:
        DATASETS.unregister("my-digits")
    with pytest.raises(UserError, match="my-digits is not a folder: give one with a sub-folder of photos per class"):
        make_stream("split:my-digits")


@pytest.mark.parametrize("name", ["split:", "splits", "digits", "splits:digits", ":"])
def test_an_unknown_protocol_is_one_line_with_all_forms(name):
    with pytest.raises(UserError, match=rf"unknown protocol '{name}'.*split:DATA, permuted:DATA, FILE\.py:NAME"):
        get_protocol(name)


def guarded(stream, seed):
    """The same stream, with every training image outside the draw, and every test image, replaced by noise."""
    random = torch.Generator().manual_seed(seed)
    drawn = torch.cat([plan.train for plan in stream.plans]).unique()
    images = torch.randint(0, 256, stream.train.images.shape, generator=random).to(torch.uint8)
    images[drawn] = stream.train.images[drawn]
    tests = torch.randint(0, 256, stream.test.images.shape, generator=random).to(torch.uint8)
    return dataclasses.replace(
        stream,
        train=dataclasses.replace(stream.train, images=images),
        test=dataclasses.replace(stream.test, images=tests),
    )


@pytest.mark.parametrize("method_name", METHODS.names())
@pytest.mark.parametrize("name", ["split-digits", "permuted-digits"])
def test_no_method_learns_from_anything_but_the_draw(method_name, name):
    """Noise in place of every image that was not drawn changes nothing of what is learned."""
    stream = make_stream(name, seed=3, tasks=2, first_shots=5, shots=5)
    quick = {key: 2 for key in ("epochs", "samples") if key in METHODS.get(method_name).method.Config.model_fields}
    states = []
    for variant in (stream, guarded(stream, 1), guarded(stream, 2)):
        method = make_method(method_name, variant, **quick)
        for task in variant:
            method.learn(task)
            evaluate(method, variant, task.position)
        states.append(method.state())
    for state in states[1:]:
        assert all(torch.equal(state[key], states[0][key]) for key in states[0])
    assert not torch.equal(guarded(stream, 1).train.images, guarded(stream, 2).train.images)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shots": 0}, "shots=0: input should be greater than or equal to 1"),
        ({"shots": 1000}, "class '0' has 128 training images, fewer than the 1000 shots requested"),
        ({"tasks": 20}, "tasks=20: these classes allow at most 9 tasks"),
        ({"first_classes": 11}, "first_classes=11: the data has only 10 classes"),
        ({"class_order": "up"}, "class_order=up: give sorted, random, a file, or the classes with commas"),
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
