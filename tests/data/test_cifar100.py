import hashlib

import pytest
import torch

from protoreplay import make_stream
from protoreplay.core.errors import UserError
from protoreplay.data import archives, cifar100
from protoreplay.data.catalog import download_dataset, import_dataset
from tests.data import fakes


def archive(tmp_path, monkeypatch, files):
    path = fakes.tar(tmp_path / "cifar-100-binary.tar.gz", files)
    monkeypatch.setattr(cifar100, "_PUBLISHED", hashlib.md5(path.read_bytes()).hexdigest())
    return path


def test_the_published_format_from_the_web_and_from_a_copy(web, tmp_path, monkeypatch):
    path = archive(tmp_path, monkeypatch, fakes.cifar100_files())
    address, pages = web
    monkeypatch.setattr(cifar100, "_WEB", f"{address}/cifar-100-binary.tar.gz")
    pages["/cifar-100-binary.tar.gz"] = path.read_bytes(), path.stat().st_size
    download_dataset("cifar100")
    first = cifar100.load()
    assert torch.equal(first.train.images, fakes.tensors(200, (3, 32, 32))["train_images"])
    assert first.train.labels.tolist() == [*range(100)] * 2  # the class, not the superclass
    assert first.train.class_names[:2] == ("apple", "aquarium_fish")
    cifar100.FILE.path.unlink()
    import_dataset("cifar100", path)
    assert cifar100.FILE.verify().source == "a copy, cifar-100-binary.tar.gz"
    stream = make_stream("fscil-cifar100", shots=1)
    assert [len(task.labels) for task in stream] == [120, *[5] * 8]
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(UserError, match="is not the published file: its MD5 differs"):
        import_dataset("cifar100", path)
    with pytest.raises(UserError, match="is not a file: give the published cifar-100-binary"):
        import_dataset("cifar100", tmp_path)
    monkeypatch.setattr(cifar100, "_WEB", "http://127.0.0.1:9/cifar")
    cifar100.FILE.path.unlink()
    with pytest.raises(UserError, match="check the network connection, or `protoreplay data import cifar100 PATH`"):
        download_dataset("cifar100")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda files: files.pop("cifar-100-binary/test.bin"), "has no cifar-100-binary/test.bin"),
        (lambda files: files.update({"cifar-100-binary/fine_label_names.txt": b"cat"}), "lists other classes"),
    ],
)
def test_an_archive_of_another_form(tmp_path, monkeypatch, spoil, message):
    files = fakes.cifar100_files()
    spoil(files)
    with pytest.raises(UserError, match=message):
        import_dataset("cifar100", archive(tmp_path, monkeypatch, files))


def test_the_real_size_is_within_the_limit_of_this_archive_alone(tmp_path, monkeypatch):
    assert cifar100._LARGEST == 153_700_000 > archives.LARGEST
    monkeypatch.setattr(cifar100, "_LARGEST", 1000)
    with pytest.raises(UserError, match=r"refused: its member .* claims more than 0 MiB"):
        import_dataset("cifar100", archive(tmp_path, monkeypatch, fakes.cifar100_files()))
