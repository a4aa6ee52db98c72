import os
import stat
from pathlib import Path

import pytest
import safetensors.torch
import torch

from protoreplay.core.errors import UserError
from protoreplay.data import cache
from protoreplay.data.cache import DatasetContent, DatasetFile
from tests.data.fakes import tensors

FILE = DatasetFile("toy", remedy="protoreplay data get toy")
CLASSES = tuple("0123456789")


def store(made=None, classes=CLASSES, file=FILE):
    with file.locked(pytest.fail) as work:
        file.store(DatasetContent(made or tensors(), classes, "a test"), work)
    return file.path


def test_what_is_stored_is_what_is_opened():
    made = tensors()
    store(made)
    content = FILE.verify()
    assert content.classes == CLASSES
    assert content.source == "a test"
    dataset = FILE.dataset()
    assert dataset.name == "toy"
    assert torch.equal(dataset.train.images, made["train_images"])
    assert torch.equal(dataset.test.labels, made["test_labels"].long())


def test_images_are_mapped_not_copied():
    path = store()
    images = FILE.dataset().train.images
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, _, end = line.split()[0].partition("-")
        if int(start, 16) <= images.data_ptr() < int(end, 16):
            assert line.endswith(str(path))
            return
    pytest.fail("the images are nowhere in memory")


def test_writing_to_an_opened_image_leaves_the_file_alone():
    path = store()
    before = path.read_bytes()
    FILE.dataset().train.images.zero_()
    assert path.read_bytes() == before


def test_opened_once_per_path(monkeypatch, tmp_path):
    store()
    first = FILE.dataset()
    assert FILE.dataset() is first
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "other"))
    with pytest.raises(UserError, match=r"^toy is not on this machine: get it with `protoreplay data get toy`$"):
        FILE.dataset()
    store()
    assert FILE.dataset() is not first


def test_the_same_content_gives_the_same_file():
    first = store().read_bytes()
    assert store().read_bytes() == first


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "new").touch()
    assert stat.S_IMODE(store().stat().st_mode) == stat.S_IMODE((tmp_path / "new").stat().st_mode)


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_wrong_pixel_is_found_by_verify():
    path = store()
    flip(path, -1)
    FILE.dataset()  # reads no pixel
    with pytest.raises(
        UserError, match=r"damaged \(wrong bytes in train_labels\): `protoreplay data get toy` replaces"
    ):
        FILE.verify()


def test_wrong_bytes_of_the_description_are_found():
    path = store(tensors(2, (1, 1, 1)))
    whole = path.read_bytes()
    text = whole.index(b'{\\"format')
    for at in range(text, whole.index(b'}"', text), 7):
        flip(path, at)
        with pytest.raises(UserError, match=r"`protoreplay data get toy` replaces it$"):
            FILE.verify()
        path.write_bytes(whole)
    FILE.verify()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not safetensors at all"),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:50]),
        lambda path: flip(path, 0),
        lambda path: safetensors.torch.save_file({"a": torch.zeros(1)}, path),
        lambda path: safetensors.torch.save_file({"a": torch.zeros(1)}, path, {"protoreplay": "{}"}),
        lambda path: store(classes=("one",)),
        lambda path: store({key: value for key, value in tensors().items() if "train" in key}),
        lambda path: store({key: value.long() for key, value in tensors().items()}),
    ],
)
def test_a_broken_file_fails_in_one_line_and_can_be_replaced(spoil):
    spoil(store())
    with pytest.raises(UserError) as error:
        FILE.dataset()
    assert str(error.value).endswith("`protoreplay data get toy` replaces it")
    assert str(FILE.path) in str(error.value)
    store()
    assert len(FILE.dataset().train) == 20


def test_a_file_of_another_version(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cache, "FORMAT", 99)
        store()
    with pytest.raises(
        UserError, match="was written by another version of protoreplay: `protoreplay data get toy` replaces it"
    ):
        FILE.dataset()


def test_one_lock_per_dataset_and_leftovers_of_a_killed_process(cache_folder):
    other = DatasetFile("toy2", remedy="")
    leftover = cache_folder / ".toy.abc.tmp"
    with other.locked(pytest.fail) as theirs:
        leftover.mkdir(parents=True)
        (leftover / "half").touch()
        with FILE.locked(pytest.fail) as work:
            assert not leftover.exists()
            assert theirs.exists()
            assert list(work.iterdir()) == []
    assert sorted(path.name for path in cache_folder.iterdir()) == [".toy.lock", ".toy2.lock"]


def test_a_full_disk_is_one_line_and_the_old_file_stays(monkeypatch):
    path = store()
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            UserError, match=r"cannot write to .*: No space left on device: free some space there, or set PROT"
        ):
            store(tensors(seed=1))
    assert path.read_bytes() == before


def test_a_cache_that_is_no_folder(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot write to"):
        store()
