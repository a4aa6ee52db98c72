import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoreplay import make_method, make_stream
from protoreplay.methods.augmentation import AugmentationSettings, augment


def pictures(count=64, channels=3, size=12):
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, channels, size, size), generator=random).to(torch.uint8)


def changed(images, seed=0, **chosen):
    return augment(images, AugmentationSettings(**chosen), torch.Generator().manual_seed(seed))


def test_off_by_default_and_then_nothing_is_drawn():
    random = torch.Generator().manual_seed(0)
    before = random.get_state()
    images = pictures()
    assert augment(images, AugmentationSettings(), random) is images
    assert torch.equal(random.get_state(), before)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 20),
    st.booleans(),
    st.floats(0, 1),
    st.floats(0, 3),
    st.floats(0, 1),
    st.sampled_from([1, 3]),
    st.integers(0, 99),
)
def test_shape_range_and_reproducibility(shift, flip, colour, hue, erase, channels, seed):
    images = pictures(5, channels)
    chosen = {"augment_shift": shift, "augment_flip": flip, "augment_colour": colour, "augment_erase": erase}
    chosen["augment_hue"] = hue
    result = changed(images, seed, **chosen)
    assert result.shape == images.shape
    assert 0 <= float(result.min()) <= float(result.max()) <= 255
    assert torch.equal(result, changed(images, seed, **chosen))
    assert torch.equal(images, pictures(5, channels))


def test_flip_mirrors_about_half_and_leaves_the_others():
    images = pictures()
    result = changed(images, augment_flip=True)
    mirrored = (result == images.flip(-1)).flatten(1).all(1)
    same = (result == images).flatten(1).all(1)
    assert (mirrored ^ same).all()
    assert 16 < int(mirrored.sum()) < 48


def test_shift_moves_each_image_by_its_own_whole_pixels():
    images = pictures()
    result = changed(images, augment_shift=3)
    offsets = set()
    for before, after in zip(images.float(), result):
        padded = torch.nn.functional.pad(before[None], (3, 3, 3, 3), mode="reflect")[0]
        found = [(y, x) for y in range(7) for x in range(7) if torch.equal(padded[:, y : y + 12, x : x + 12], after)]
        assert found
        offsets.update(found)
    assert len(offsets) > 20


def test_erase_hides_one_square_of_the_size_asked():
    images = pictures(size=12)
    result = changed(images, augment_erase=0.5)
    hidden = (result == 127.5).all(1)
    assert (hidden.sum((1, 2)) == 36).all()
    rows, columns = hidden.any(2).sum(1), hidden.any(1).sum(1)
    assert (rows == 6).all()
    assert (columns == 6).all()
    assert torch.equal(result[~hidden[:, None].expand_as(result)], images[~hidden[:, None].expand_as(images)].float())


def test_colour_changes_images_differently_and_keeps_grey_grey():
    grey = pictures(channels=1).expand(-1, 3, -1, -1)
    result = changed(grey, augment_colour=0.4)
    torch.testing.assert_close(result[:, 0], result[:, 1])
    ratios = result.mean((1, 2, 3)) / grey.float().mean((1, 2, 3))
    assert ratios.std() > 0.1


def test_hue_turns_colours_around_grey():
    images = 64 + pictures() // 2  # Turned by whatever angle, no colour leaves 0..255.
    result = changed(images, augment_hue=0.6)
    before, after = (x - x.mean(1, keepdim=True) for x in (images.float(), result))
    torch.testing.assert_close(result.mean(1), images.float().mean(1))
    torch.testing.assert_close(after.norm(dim=1), before.norm(dim=1), rtol=1e-3, atol=1e-2)
    cosine = torch.nn.functional.cosine_similarity(after, before, dim=1).flatten(1)
    strong = before.norm(dim=1).flatten(1) > 10
    angles = torch.where(strong, cosine.clamp(-1, 1).arccos(), torch.nan)
    assert angles.nan_to_num(0).max() <= 0.61
    for one in angles:
        known = one[~one.isnan()]
        torch.testing.assert_close(known, known[:1].expand_as(known), atol=0.02, rtol=0)
    assert angles.nanmean(1).std() > 0.1


def test_hue_leaves_grey_and_one_channel_alone():
    one = pictures(channels=1)
    assert changed(one, augment_hue=1.0) is one
    grey = one.expand(-1, 3, -1, -1)
    torch.testing.assert_close(changed(grey, augment_hue=1.0), grey.float())


@pytest.mark.parametrize("method", ["vpr-paper", "sgd", "joint"])
def test_methods_train_with_it_and_still_repeat(method):
    stream = make_stream("split-digits", tasks=2)
    states = []
    for chosen in ({}, {"augment_shift": 1}, {"augment_shift": 1}):
        learner = make_method(method, stream, epochs=2, **chosen)
        for task in stream:
            learner.learn(task)
        states.append(learner.state()["network.head.weight"])
    assert not torch.equal(states[0], states[1])
    assert torch.equal(states[1], states[2])
