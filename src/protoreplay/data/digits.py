"""The 1,797 handwritten digits of 8 x 8 pixels that ship inside scikit-learn: no download."""

import functools

import numpy as np
import torch

from protoreplay.data.images import Dataset, ImageSet

TEST_PER_CLASS = 50


@functools.cache
def load() -> Dataset:
    """The digits with a fixed test split: the last 50 images of each class in file order.

    Pixels of 0..16 are scaled to 0..255.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = torch.from_numpy(np.rint(bunch.images * (255 / 16)).astype(np.uint8)).unsqueeze(1)
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    names = tuple(str(name) for name in bunch.target_names)
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(len(names)):
        is_test[(labels == label).nonzero().flatten()[-TEST_PER_CLASS:]] = True
    return Dataset(
        name="digits",
        train=ImageSet(images[~is_test], labels[~is_test], names),
        test=ImageSet(images[is_test], labels[is_test], names),
    )
