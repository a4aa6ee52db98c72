import os

import numpy as np
import pytest
import torch
from PIL import Image

from protoreplay.core.errors import UserError
from protoreplay.data import photo_folder
from protoreplay.data.images import ImageSet
from tests.data import fakes
from tests.data.test_mini_imagenet import bomb

RED, BLUE = (220, 30, 40), (20, 40, 210)


def plain(colour, size=(60, 40), mode="RGB"):
    return Image.new("RGB", size, colour).convert(mode)


def photos(path, **classes):
    """`name=[picture bytes, ...]` as sub-folders."""
    for name, pictures in classes.items():
        fakes.unpacked(path / name, {f"{i:03}": content for i, content in enumerate(pictures)})
        (path / name).mkdir(parents=True, exist_ok=True)
    return path


def numbered(count, start=0):
    return [fakes.picture(plain((start + i,) * 3)) for i in range(count)]


def test_a_third_of_each_class_evenly_spaced_is_for_testing(tmp_path):
    dataset = photo_folder.load(photos(tmp_path / "pets", b=numbered(9), a=numbered(2, 100), c=numbered(7, 200)), 8)
    assert dataset.name == "pets"
    assert dataset.train.class_names == dataset.test.class_names == ("a", "b", "c")
    assert dataset.train.images.shape == (1 + 6 + 5, 3, 8, 8)
    assert dataset.test.images[:, 0, 0, 0].tolist() == [101, 1, 4, 7, 201, 205]
    assert dataset.test.labels.tolist() == [0, 1, 1, 1, 2, 2]
    assert not set(dataset.train.images[:, 0, 0, 0].tolist()) & set(dataset.test.images[:, 0, 0, 0].tolist())


def sixteen_bit(value):
    return Image.fromarray(np.full((40, 60), value, np.uint16))


def rgba(alpha):
    image = plain(RED).convert("RGBA")
    image.putalpha(alpha)
    return image


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (fakes.picture(plain(RED)), RED),
        (fakes.picture(plain(RED), "JPEG", quality=95), RED),
        (fakes.picture(plain(RED, (4000, 3000)), "JPEG", quality=95), RED),
        (fakes.picture(plain(RED), "BMP"), RED),
        (fakes.picture(plain(RED), "WEBP", lossless=True), RED),
        (fakes.picture(plain(RED, mode="P"), "GIF"), RED),
        (fakes.picture(plain(RED, mode="CMYK"), "TIFF"), RED),
        (fakes.picture(plain(RED, mode="CMYK"), "JPEG", quality=95), RED),
        (fakes.picture(plain((90, 90, 90), mode="L")), (90, 90, 90)),
        (fakes.picture(plain((255, 255, 255), mode="1")), (255, 255, 255)),
        (fakes.picture(sixteen_bit(90 * 256)), (90, 90, 90)),
        (fakes.picture(sixteen_bit(90 * 256), "TIFF"), (90, 90, 90)),
        (fakes.picture(plain((90, 90, 90), mode="LA")), (90, 90, 90)),
        (fakes.picture(rgba(255)), RED),
        (fakes.picture(rgba(0)), (255, 255, 255)),
        (fakes.picture(plain(RED, (1, 500))), RED),
    ],
)
def test_every_kind_of_picture(tmp_path, content, expected):
    read = photo_folder.read_photos(photos(tmp_path, one=[content]), 16, pytest.fail)
    assert read.images.shape == (1, 3, 16, 16)
    assert (read.images[0].float() - torch.tensor(expected).view(3, 1, 1)).abs().max() <= 4


def test_the_central_square_upright(tmp_path):
    image = plain(BLUE, (40, 80))
    image.paste(RED, (0, 20, 40, 40))  # upper half of the central square
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: a quarter clockwise to be upright
    turned = fakes.picture(image.transpose(Image.Transpose.ROTATE_90), exif=exif)
    plain_one, turned_one = photo_folder.read_photos(
        photos(tmp_path, one=[fakes.picture(image), turned]), 20, pytest.fail
    ).images
    assert torch.equal(plain_one, turned_one)
    for row, colour in ((2, RED), (-3, BLUE)):
        assert (plain_one[:, row, 10].float() - torch.tensor(colour)).abs().max() <= 4


def test_unreadable_files_are_reported_by_name_and_skipped(tmp_path, capsys):
    good = fakes.picture(plain(RED))
    eps = fakes.picture(plain(RED), "EPS")
    noise = fakes.picture(np.random.default_rng(0).integers(0, 256, (90, 90, 3)))
    real = fakes.picture(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF")
    path = photos(tmp_path, a=[good, good, b"", b"text", noise[:500], bomb(), eps, real, good], b=[good, good])
    (path / "a" / ".hidden").write_bytes(b"?")
    (path / "a" / "folder").mkdir()
    os.mkfifo(path / "a" / "pipe")
    (path / "notes.txt").touch()
    dataset = photo_folder.load(path, 8)
    assert len(dataset.train) + len(dataset.test) == 5
    said = capsys.readouterr().err.splitlines()
    expected = [
        "002: not a picture of a known format",
        "003: not a picture of a known format",
        "004: unreadable (",
        "005: refused: it has far more pixels than a photo",
        "006: cannot be read, PostScript: save it as PNG",
        "007: unreadable (pixels are real numbers of unknown range)",
        "folder: not a file",
        "pipe: not a file",
    ]
    assert len(said) == len(expected)
    for line, start in zip(said, expected, strict=True):
        assert line.startswith(str(path / "a") + "/" + start)


def test_pillow_s_warnings_are_not_shown_and_its_limit_holds(tmp_path, monkeypatch):
    path = photos(tmp_path, one=[fakes.picture(plain(RED, (60, 40)))])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1500)  # it warns from here on and refuses from the double on
    assert len(photo_folder.read_photos(path, 8, pytest.fail)) == 1
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UserError, match="no readable photo"):
        photo_folder.read_photos(path, 8, lambda line: None)


def test_many_cuts_and_flips_never_crash(tmp_path):
    random = np.random.default_rng(0)
    exif = Image.Exif()
    exif[0x0112] = 6
    spoilt = []
    for form in ("JPEG", "PNG", "GIF", "TIFF", "WEBP"):
        whole = fakes.picture(random.integers(0, 256, (16, 16, 3)), form, **({} if form == "GIF" else {"exif": exif}))
        for _ in range(20):
            content = bytearray(whole)
            content[random.integers(len(content))] ^= 1 << random.integers(8)
            spoilt += [bytes(content), whole[: random.integers(len(whole))]]
    lines = []
    read = photo_folder.read_photos(photos(tmp_path, one=[*spoilt, fakes.picture(plain(RED))]), 8, lines.append)
    assert len(read) + len(lines) == len(spoilt) + 1
    assert lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({"one": numbered(3)}, "has only one class, 'one': give at least two sub-folders"),
        ({"one": numbered(3), "two": []}, "two has no readable photo: add some or remove the folder"),
        ({"one": numbered(3), "two": [b"?"]}, "two has no readable photo"),
        ({"one": numbered(3), "two": numbered(1)}, "two has only one readable photo: give at least two"),
        ({}, "has no sub-folders: put the photos of each class into a sub-folder"),
    ],
)
def test_folders_that_are_no_dataset(tmp_path, classes, message):
    with pytest.raises(UserError, match=message):
        photo_folder.load(photos(tmp_path, **classes), 8, lambda line: None)


def test_wrong_calls(tmp_path):
    with pytest.raises(UserError, match="absent is not a folder"):
        photo_folder.load(tmp_path / "absent", 8)
    with pytest.raises(UserError, match="size=0: must be at least 1"):
        photo_folder.load(tmp_path, 0)


def test_an_official_split_into_train_and_test_is_taken(tmp_path):
    photos(tmp_path / "train", a=numbered(3), b=numbered(2, 50))
    photos(tmp_path / "test", a=numbered(1, 100), b=numbered(4, 150))
    found = photo_folder.load(tmp_path, 8)
    assert found.train.class_names == found.test.class_names == ("a", "b")
    assert found.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 50, 51]
    assert found.test.labels.tolist() == [0, 1, 1, 1, 1]
    photos(tmp_path / "test", c=numbered(1))
    with pytest.raises(UserError, match=r"test/c: every class must be in both .*train and .*test"):
        photo_folder.load(tmp_path, 8)


def test_image_sets_take_numpy_arrays():
    colours = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5, 3)
    grey, labels = colours[..., 0], np.array([1, 0], dtype=np.int32)
    made = ImageSet(colours, labels, ["a", "b"])
    assert torch.equal(made.images, torch.from_numpy(colours).permute(0, 3, 1, 2))
    assert (made.labels.dtype, made.labels.tolist(), made.class_names) == (torch.int64, [1, 0], ("a", "b"))
    assert ImageSet(grey, labels, ("a", "b")).images.shape == (2, 1, 4, 5)
    assert ImageSet(colours.transpose(0, 3, 1, 2), labels, ("a", "b")).images.shape == (2, 3, 4, 5)
    with pytest.raises(ValueError, match="images must be uint8, 0 to 255, not float32"):
        ImageSet(grey.astype(np.float32), labels, ("a", "b"))
    with pytest.raises(ValueError, match="labels must be integers, not float64"):
        ImageSet(grey, labels.astype(np.float64), ("a", "b"))
