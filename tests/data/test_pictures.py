import numpy as np
from PIL import Image

from protoreplay.data import pictures


def picture(height, width):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return pixels, Image.fromarray(pixels)


def test_fast_shrinking_is_the_mean_of_an_area():
    pixels, image = picture(12, 18)
    means = pixels[:, 3:15].reshape(4, 3, 4, 3, 3).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(pictures.central_square(image, 4, fast=True) - means).max() <= 1
    assert np.abs(pictures.central_square(image, 4) - means).max() > 1


def test_fast_enlarging_is_like_any_other():
    _, image = picture(6, 5)
    for size in (5, 8):
        assert np.array_equal(pictures.central_square(image, size, fast=True), pictures.central_square(image, size))
