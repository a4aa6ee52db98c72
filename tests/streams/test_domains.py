import pytest
import torch

from protoreplay import make_stream
from protoreplay.streams.domains import blurred, rotated


def test_turning_moves_pixels_and_back_again():
    images = torch.zeros(2, 1, 9, 9, dtype=torch.uint8)
    images[:, :, 4, 6] = 200  # right of the middle
    assert rotated(images, 0) is images
    assert rotated(images, 90)[0, 0, 2, 4] == 200  # a quarter against the clock: above it
    assert torch.equal(rotated(images, 90), images.rot90(1, (2, 3)))
    almost = rotated(images, 89.999)
    assert (almost.int() - rotated(images, 90).int()).abs().max() <= 1
    smooth = blurred(images, 1.5)
    there_and_back = rotated(rotated(smooth, 30.0), -30.0)[:, :, 2:7, 2:7].float()
    assert (there_and_back - smooth[:, :, 2:7, 2:7].float()).abs().max() <= 6


def test_blur_is_a_gaussian():
    point = torch.zeros(1, 1, 33, 33, dtype=torch.uint8)
    point[0, 0, 16, 16] = 255
    spread = blurred(point, 1.0)[0, 0, 16].float()
    assert spread[16] == round(255 / (2 * torch.pi))  # the height of a Gaussian of deviation 1 in two dimensions
    assert spread[17] / spread[16] == pytest.approx(0.6065, abs=0.02)
    flat = torch.full((3, 3, 8, 8), 77, dtype=torch.uint8)
    assert torch.equal(blurred(flat, 3.0), flat)
    assert blurred(flat, 0.0) is flat


def test_rotated_and_blurred_streams_change_training_and_test_images_alike():
    turned = make_stream("rotated-digits", 1)
    angles = [plan.degrees for plan in turned.plans]
    assert angles[0] == 0
    assert all(0 < angle < 180 for angle in angles[1:])
    assert len(set(angles)) == 10
    assert angles != [plan.degrees for plan in make_stream("rotated-digits", 2).plans]
    soft = make_stream("permuted-digits", 1, change="blur", tasks=5)
    assert [plan.blur for plan in soft.plans] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    for stream, change in ((turned, rotated), (soft, blurred)):
        plan = stream.plans[2]
        by = plan.degrees or plan.blur
        assert torch.equal(stream.task(3).images, change(stream.train.images[plan.train], by))
        assert torch.equal(stream.test_set(3)[0], change(stream.test.images[plan.test], by))
    assert soft.task(5).images.float().std() < soft.task(1).images.float().std()
    assert len(make_stream("blurred-digits", tasks=1)) == 1
