import pytest
import torch

from protoreplay.encoders.dictionary import DictionarySettings, PatchDictionary, turn_and_zoom


def dictionary(images, seed=0, **sizes):
    body = PatchDictionary(images.shape[1:], DictionarySettings(**{"filters": 8, "patch": 4, "latent": 10, **sizes}))
    body.fit(images, torch.Generator().manual_seed(seed))
    return body


def pictures(count=6, shape=(3, 32, 32)):
    """Smooth random pictures: neighbouring pixels are alike."""
    random = torch.Generator().manual_seed(count)
    coarse = 255 * torch.rand(count, shape[0], shape[1] // 4, shape[2] // 4, generator=random)
    return torch.nn.functional.interpolate(coarse, scale_factor=4.0, mode="bilinear").to(torch.uint8)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 84, 84)])
def test_a_dictionary_is_made_of_images_of_any_size(shape):
    images = pictures(shape=shape)
    body = dictionary(images)
    assert body(images).shape == (6, 10)
    torch.testing.assert_close(body.answers(images).flatten(1).norm(dim=1), torch.ones(6))
    assert same_weights(body, dictionary(images))
    assert not same_weights(body, dictionary(images, seed=1))


def same_weights(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True))


def test_a_dictionary_sees_neither_brightness_nor_contrast_where_contrast_is_high():
    images = pictures().float()
    body = dictionary(images)
    changed = images * 0.9 + 20
    torch.testing.assert_close(body.answers(changed), body.answers(images), atol=0.02, rtol=0)


def test_filters_of_a_dictionary_do_not_see_the_mean():
    body = dictionary(pictures())
    assert body.filters.sum(1).abs().max() < 1e-4


@pytest.mark.parametrize("side", [3, 4])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 36, 32)])
def test_answers_of_a_dictionary_are_thresholded_convolutions_averaged_over_fields(shape, side):
    images = pictures(shape=shape)
    body = dictionary(images, patch=side, mirror=False)
    filters = body.filters.view(8, shape[0], side, side)
    patches = torch.nn.functional.unfold(images.float(), side, stride=body.stride)
    answer = torch.nn.functional.conv2d(images.float(), filters, stride=body.stride)
    answer /= (patches.var(1).view(len(images), 1, *answer.shape[2:]) + body.settings.contrast).sqrt()
    answer -= body.offset[:, None, None]
    both = torch.cat([(answer - body.settings.threshold).relu(), (-answer - body.settings.threshold).relu()], 1)
    pooled = torch.nn.functional.adaptive_avg_pool2d(both, body.settings.grid).flatten(2).sqrt()
    expected = torch.nn.functional.normalize(pooled.flatten(1)).view_as(pooled).transpose(1, 2)
    # Of squares: the root of what rounding leaves of nothing is far larger than it.
    torch.testing.assert_close(body.answers(images).square(), expected.square(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("side", "shape"), [(4, (3, 32, 32)), (8, (3, 32, 32)), (3, (1, 8, 8))])
def test_a_dictionary_may_give_an_image_and_its_mirror_image_the_same_features(side, shape):
    images = pictures(shape=shape)
    body = dictionary(images, patch=side)
    features, mirrored = body(images), body(images.flip(-1))
    torch.testing.assert_close(features, mirrored, rtol=1e-3, atol=1e-4)
    body = dictionary(images, patch=side, mirror=False)
    assert (body(images) - body(images.flip(-1))).abs().max() > 0.01


@pytest.mark.parametrize("side", [4, 8])
def test_a_mirroring_dictionary_adds_up_the_answers_of_both_sides(side):
    images = pictures()
    body = dictionary(images, patch=side, mirror=False)
    # The roots of both sides, added up, of unit length: the answers of either alone, mirrored back, give the direction.
    both = body.answers(images) + body.answers(images.flip(-1))
    mirroring = PatchDictionary((3, 32, 32), body.settings.model_copy(update={"mirror": True}))
    mirroring.load_state_dict(body.state_dict())
    similar = torch.nn.functional.cosine_similarity(both.flatten(1), mirroring.answers(images).flatten(1))
    assert similar.min() > 0.999


def test_features_of_a_dictionary_are_decorrelated_over_the_images_it_was_made_of():
    images = pictures()
    body = dictionary(images, latent=5)
    copies = turn_and_zoom(images.repeat(200, 1, 1, 1), torch.Generator().manual_seed(5))
    correlation = body(copies).T.corrcoef()
    assert (correlation - torch.eye(5)).abs().max() < 0.25


def test_one_image_of_one_colour_makes_a_dictionary_without_directions():
    body = dictionary(torch.full((1, 3, 32, 32), 7, dtype=torch.uint8))
    assert torch.isfinite(body(pictures())).all()
