"""Small datasets in the forms in which the real ones come."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from protoreplay.core.terminal import ItemProgress
from protoreplay.data import cifar10, cifar100, mnist
from protoreplay.data.cache import sha256_hex
from protoreplay.data.idx import IDX_FILES
from protoreplay.data.sources import DownloadSource


class Heard(ItemProgress):
    """Remembers what was said."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def tensors(count=20, shape=(1, 28, 28), seed=0):
    random = np.random.default_rng(seed)
    made = {}
    for part, n in (("train", count), ("test", count // 2)):
        made[f"{part}_images"] = torch.from_numpy(random.integers(0, 256, (n, *shape), dtype=np.uint8))
        made[f"{part}_labels"] = torch.arange(n, dtype=torch.uint8) % 10
    return made


def source(made=None, name="a fake"):
    return DownloadSource(name, lambda work, progress: made or tensors())


def tar(path: Path, files: dict[str, bytes], mode="w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def unpacked(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def picture(pixels, form="PNG", **options) -> bytes:
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.asarray(pixels, dtype=np.uint8))
    image.save(file, form, **options)
    return file.getvalue()


def mnist_files(monkeypatch, module=mnist) -> dict[str, bytes]:
    """The four IDX files with 20 and 10 images, which from now on are the published ones."""
    files = {}
    for key, array in ((key, tensor.squeeze().numpy()) for key, tensor in tensors().items()):
        header = b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
        files[IDX_FILES[key]] = header + array.tobytes()
    monkeypatch.setattr(module, "_DIGESTS", {name: sha256_hex(content) for name, content in files.items()})
    return files


def cifar100_files() -> dict[str, bytes]:
    """The members of the official archive with 200 and 100 images: superclass, class and pixels in each row."""
    made = tensors(200, (3, 32, 32))
    files = {"cifar-100-binary/fine_label_names.txt": "\n".join([*cifar100.CLASSES, ""]).encode()}
    for part in ("train", "test"):
        images = made[f"{part}_images"].numpy()
        fine = np.arange(len(images), dtype=np.uint8)[:, None] % 100
        files[f"cifar-100-binary/{part}.bin"] = np.concatenate(
            [fine // 5, fine, images.reshape(len(images), -1)], axis=1
        ).tobytes()
    return files


def mnist_web(files: dict[str, bytes]) -> dict[str, tuple[bytes, int]]:
    packed = {f"/{name}.gz": gzip.compress(content) for name, content in files.items()}
    return {path: (content, len(content)) for path, content in packed.items()}


def cifar_files(monkeypatch) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The members of the official archive and of the npm package, with 20 images a batch."""
    made = tensors(100, (3, 32, 32)) | {
        key: value[:20] for key, value in tensors(100, (3, 32, 32)).items() if key.startswith("test")
    }
    monkeypatch.setattr(cifar10, "_DIGESTS", {key: sha256_hex(tensor.numpy().data) for key, tensor in made.items()})
    official, package = {}, {}
    for part, batches in cifar10._BATCHES.items():
        images, labels = made[f"{part}_images"].numpy(), made[f"{part}_labels"].numpy()
        package[f"package/{part}_lables.json"] = json.dumps(labels.tolist()).encode()
        for i, batch in enumerate(batches):
            some = slice(20 * i, 20 * i + 20)
            rows = np.concatenate([labels[some, None], images[some].reshape(20, -1)], axis=1)
            official[f"cifar-10-batches-bin/{batch}.bin"] = rows.tobytes()
            package[f"package/{batch}.png"] = picture(images[some].reshape(20, 3, 1024).transpose(0, 2, 1))
    return official, package
