import numpy as np
import pytest
import torch

from protoreplay import make_stream
from protoreplay.core.errors import UserError
from protoreplay.data.arrays import dataset_of_arrays

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 10, 8, 3), dtype=np.uint8)
LABELS = np.arange(24) % 4


def test_colours_first_or_last_and_grey_are_the_same_images():
    last = dataset_of_arrays(IMAGES, LABELS)
    first = dataset_of_arrays(IMAGES.transpose(0, 3, 1, 2), LABELS)
    assert torch.equal(last.train.images, first.train.images)
    assert last.train.images.shape == (16, 3, 10, 8)
    assert last.test.labels.bincount().tolist() == [2] * 4
    grey = dataset_of_arrays(IMAGES[..., 0], LABELS)
    assert torch.equal(grey.train.images[:, 0], last.train.images[:, 0])
    tiny = np.zeros((8, 3, 5, 3), np.uint8)
    assert dataset_of_arrays(tiny, LABELS[:8], channels="last").train.images.shape[1:] == (3, 3, 5)


def test_labels_are_numbers_or_names_and_test_images_may_be_given():
    names = np.array(["d", "b", "a", "c"])[LABELS]
    named = dataset_of_arrays(IMAGES, names, IMAGES[:4], names[:4])
    assert named.train.class_names == ("a", "b", "c", "d")
    assert named.train.labels[:4].tolist() == named.test.labels.tolist() == [3, 1, 0, 2]
    assert len(named.train) == 24
    assert dataset_of_arrays(IMAGES, LABELS + 7).train.class_names == ("7", "8", "9", "10")
    called = dataset_of_arrays(IMAGES, LABELS, class_names=["w", "x", "y", "z"])
    assert called.train.class_names[int(called.train.labels[3])] == "z"


def test_arrays_are_a_stream():
    stream = make_stream(images=IMAGES, labels=LABELS, shots=3, classes_per_task=2)
    assert stream.image_shape == (3, 10, 10)
    assert [task.classes for task in stream] == [(0, 1), (2, 3)]
    permuted = make_stream("permuted", images=IMAGES, labels=LABELS, shots=3, tasks=2, change="rotate")
    assert permuted.known_classes() == [4, 4]
    with pytest.raises(UserError, match="with arrays, give split or permuted"):
        make_stream("split-digits", images=IMAGES, labels=LABELS)
    with pytest.raises(UserError, match="needs both images and labels"):
        make_stream(images=IMAGES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"images": IMAGES / 255}, "images have type float64: give uint8 values from 0 to 255"),
        ({"images": IMAGES[0, 0]}, r"images have the shape \(8, 3\): give N x H x W x C"),
        ({"images": np.zeros((24, 8, 8, 4), np.uint8)}, "the number of channels, C, must be 1 or 3"),
        ({"images": np.zeros((24, 3, 8, 3), np.uint8)}, "give channels='first' or channels='last'"),
        ({"labels": LABELS[:5]}, r"labels have the shape \(5,\): give one for each of the 24 images"),
        ({"labels": LABELS / 2}, "labels have type float64 and shape"),
        ({"labels": np.arange(24)}, "class '0' has 1 images: give at least two, or eval_images"),
        ({"class_names": ["a", "b"]}, "labels have 2, which is no index of class_names"),
        ({"eval_images": IMAGES}, "give both or neither"),
        ({"eval_images": IMAGES[:, 1:], "eval_labels": LABELS}, "eval_images are 3 x 9 x 8, images are 3 x 10 x 8"),
        ({"eval_images": IMAGES, "eval_labels": LABELS + 1}, "eval_labels have 4, which is no class"),
    ],
)
def test_what_is_no_dataset_is_one_clear_line(given, message):
    with pytest.raises(UserError, match=message) as error:
        dataset_of_arrays(**{"images": IMAGES, "labels": LABELS, **given})
    assert "\n" not in str(error.value)
