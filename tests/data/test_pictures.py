import io
import threading

import numpy as np
import pytest
from PIL import Image

from protoreplay.core.errors import UserError
from protoreplay.core.shared_budget import SharedBudget
from protoreplay.data import pictures
from tests import bombs


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


def saved(mode, format, size=(300, 200), **options):
    smooth = np.linspace(0, 255, size[0] * size[1] * 4).reshape(size[1], size[0], 4).astype(np.uint8)
    image = Image.fromarray(smooth).convert("L" if mode.startswith("I") else mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def decoded(content, *sizes):
    return pictures.decode_picture(io.BytesIO(content), *(sizes or (16,)))[0]


def test_only_formats_of_photos_are_decoded():
    for mode, format in (("RGB", "JPEG"), ("RGBA", "PNG"), ("RGB", "WEBP"), ("P", "GIF"), ("RGB", "BMP"), ("L", "PPM")):
        assert decoded(saved(mode, format)).shape == (3, 16, 16)
    named = {
        "ICO": "an icon",
        "ICNS": "an icon",
        "JPEG2000": "JPEG 2000",
        "TGA": "not a picture",
        "PCX": "not a picture",
    }
    for format, why in named.items():
        with pytest.raises(UserError, match=why):
            decoded(saved("RGB", format, (64, 64)))


@pytest.mark.parametrize(
    "content",
    [
        bombs.webp(16_383, 16_383),
        bombs.tiled_tiff(32_768),
        saved("RGBA", "PNG"),
        saved("RGBA", "WEBP"),
        saved("RGB", "AVIF", speed=10),
        saved("I;16", "PNG"),
        saved("I", "TIFF"),
        saved("RGB", "JPEG", progressive=True),
        saved("P", "GIF"),
    ],
)
def test_pictures_are_measured_before_they_are_decoded(content, monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PIXELS", 59_999)
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("it was decoded"))
    for look in (decoded, pictures.check_pixels):
        with pytest.raises(pictures.PictureTooLargeError, match="far more pixels than a photo"):
            look(content)


def test_a_jpeg_of_one_scan_counts_as_what_is_decoded_of_it(monkeypatch):
    usual = saved("RGB", "JPEG", (1600, 1200))
    monkeypatch.setattr(pictures, "MOST_PIXELS", 200 * 150)
    assert pictures.decode_picture(io.BytesIO(usual), 16, fast=True)[0].shape == (3, 16, 16)
    # The same with the head of its scan for one colour only: the others would come later, and all be kept until then.
    place = usual.index(b"\xff\xda")
    apart = usual[:place] + b"\xff\xda\0\x08\x01\x01\0\0\x3f\0" + usual[place + 14 :]
    with pytest.raises(pictures.PictureTooLargeError):
        decoded(apart)


def test_a_progressive_jpeg_may_have_so_many_scans():
    content = saved("RGB", "JPEG", progressive=True)
    place = content.index(b"\xff\xda")
    end = content.index(b"\xff\xc4", place)
    many = content[:place] + content[place:end] * 101 + content[end:]
    assert decoded(content).shape == (3, 16, 16)
    with pytest.raises(UserError, match="scans: save a copy of it that is not progressive"):
        decoded(many)


@pytest.mark.parametrize(
    ("mode", "format"), [("RGBA", "PNG"), ("P", "GIF"), ("I;16", "PNG"), ("CMYK", "TIFF"), ("LA", "PNG")]
)
def test_a_large_picture_is_reduced_before_it_is_converted(mode, format, monkeypatch):
    for size in ((1000, 731), (731, 1000)):
        content = saved(mode, format, size)
        whole = decoded(content)
        with monkeypatch.context() as small:
            small.setattr(pictures, "_SMALL", 1000)
            small.setattr(pictures, "_BAND", 50_000)
            assert np.abs(decoded(content).astype(int) - whole).mean() < 2
    turned = Image.open(io.BytesIO(content))
    turned.getexif()[0x0112] = 6
    file = io.BytesIO()
    if mode not in ("P", "CMYK"):
        turned.save(file, format, exif=turned.getexif())
        monkeypatch.setattr(pictures, "_SMALL", 1000)
        assert np.abs(decoded(file.getvalue()).astype(int) - np.rot90(whole, -1, (1, 2))).mean() < 2


def test_large_pictures_are_decoded_one_after_the_other(monkeypatch):
    monkeypatch.setattr(pictures, "_PIXELS", SharedBudget(100_000))
    content, at_once, most = saved("RGBA", "PNG"), [], []
    convert = pictures._upright_rgb

    def counted(*given):
        at_once.append(1)
        most.append(len(at_once))
        picture = convert(*given)
        at_once.pop()
        return picture

    monkeypatch.setattr(pictures, "_upright_rgb", counted)
    threads = [threading.Thread(target=decoded, args=(content,)) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert most == [1] * 20


def test_files_of_an_archive_are_taken_by_weight(monkeypatch):
    monkeypatch.setattr(pictures, "_BATCH_BYTES", 250)
    batches = []
    assert pictures.map_in_threads(len, [bytes(100)] * 7, batches.append, len) == [100] * 7
    assert batches == [3, 3, 1]
