import gzip
import hashlib
from pathlib import Path

import pytest
import torch

from protoreplay.core.errors import UserError
from protoreplay.data import fashion_mnist
from protoreplay.data.catalog import DATASETS, download_dataset
from tests.data import fakes


@pytest.fixture
def no_system(monkeypatch, tmp_path):
    """No package of the system has the files; the folder where it would have them."""
    place = tmp_path / "system"
    monkeypatch.setattr(fashion_mnist, "SYSTEM_COPY", place)
    entry = DATASETS.get("fashion-mnist")
    monkeypatch.setitem(vars(entry), "system_copy", place)
    return place


def serve(web, monkeypatch, files):
    address, pages = web
    monkeypatch.setattr(fashion_mnist, "_WEB", address)
    pages |= fakes.mnist_web(files)
    digests = {path[1:-3]: hashlib.md5(content).hexdigest() for path, (content, _) in pages.items()}
    monkeypatch.setattr(fashion_mnist, "_PUBLISHED", digests)
    return pages


@pytest.mark.usefixtures("no_system")
def test_from_the_authors_with_both_published_digests(web, monkeypatch):
    files = fakes.mnist_files(monkeypatch, fashion_mnist)
    pages = serve(web, monkeypatch, files)
    download_dataset("fashion-mnist")
    dataset, expected = fashion_mnist.FILE.dataset(), fakes.tensors()
    assert torch.equal(dataset.train.images, expected["train_images"])
    assert dataset.test.labels.tolist() == expected["test_labels"].tolist()
    assert dataset.train.class_names[9] == "Ankle boot"
    assert fashion_mnist.FILE.verify().source == "the authors' bucket"
    fashion_mnist.FILE.path.unlink()
    content = gzip.compress(files["t10k-labels-idx1-ubyte"], 1)
    pages["/t10k-labels-idx1-ubyte.gz"] = content, len(content)
    with pytest.raises(UserError, match=r"t10k-labels-idx1-ubyte\.gz is not the published file: its MD5 differs"):
        download_dataset("fashion-mnist")


def test_what_a_package_of_the_system_has_is_found_without_being_told(no_system, monkeypatch):
    entry = DATASETS.get("fashion-mnist")
    assert not entry.is_here
    with pytest.raises(UserError, match="fashion-mnist is not on this machine: get it with"):
        entry.load(28)
    files = fakes.mnist_files(monkeypatch, fashion_mnist)
    fakes.unpacked(no_system, {f"{name}.gz": gzip.compress(content) for name, content in files.items()})
    assert entry.is_here
    assert torch.equal(entry.load(28).train.images, fakes.tensors()["train_images"])
    assert fashion_mnist.FILE.verify().source == "the system's package dataset-fashion-mnist"
    fashion_mnist.FILE.path.unlink()
    (no_system / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0" * 18))
    with pytest.raises(UserError, match="t10k-labels-idx1-ubyte is not the published file: its SHA-256 differs"):
        entry.fill_cache()
    (no_system / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match=r"t10k-labels-idx1-ubyte\.gz does not exist"):
        entry.fill_cache()


@pytest.mark.skipif(not Path("/usr/share/datasets/fashion-mnist").is_dir(), reason="needs dataset-fashion-mnist")
def test_debians_files_are_the_published_ones(tmp_path):
    made = fashion_mnist.SYSTEM_SOURCE.fetch(tmp_path, fakes.Heard())
    assert made["train_images"].shape == (60000, 1, 28, 28)
    assert made["test_labels"].bincount().tolist() == [1000] * 10
