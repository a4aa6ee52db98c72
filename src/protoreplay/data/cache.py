"""The per-user cache: one file per dataset, in a form of our own that opens by memory map.

A file is safetensors: for the parts `train` and `test`, images (uint8, N x C x H x W) and labels (uint8 or int64, N),
and as metadata a JSON object with our format's version, the class names, where the content came from, and the SHA-256
of each array, after the SHA-256 of that text. Opening it reads the header alone; an image is read from the disk
when it is first used, is shared with every other process that uses it, and may be written to in memory without
changing the file.
"""

import contextlib
import functools
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, Field
from torch import Tensor

from protoreplay.core.checked_json import SCHEMA, PlainText, checked_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import move_into_place
from protoreplay.core.locks import held_lock
from protoreplay.core.places import data_folder, make_cache_folder
from protoreplay.data.images import Dataset, ImageSet

FORMAT = 1
"""Raised when files written before can no longer be read."""


@dataclass(frozen=True)
class DatasetContent:
    """What a file holds.

    Attributes:
        tensors: `train_images`, `train_labels`, `test_images`, `test_labels`; images kept at several sizes end in them.
            In place of the two of images there may be `all_images`, training images first, with their file names in
            `all_files`, as bytes with a line for each.
        classes: one name per class.
        source: where it came from.
        digests: SHA-256 of each tensor's bytes when it was written.
    """

    tensors: Mapping[str, Tensor]
    classes: tuple[str, ...]
    source: str
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetFile:
    """The place of one dataset.

    Attributes:
        name: of the dataset.
        remedy: the command that puts the file there.
    """

    name: str
    remedy: str

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return data_folder() / f"{self.name}.safetensors"

    def dataset(self, size: int | None = None) -> Dataset:
        """The dataset, opened once per process and path; `size` where images are kept at several."""
        return _dataset(self.path, self.name, self.remedy, "" if size is None else f"_{size}")

    def read(self) -> DatasetContent:
        """Open the file: a `UserError` if it is not there, or is not a file of this format."""
        return _read(self.path, self.name, self.remedy)

    def verify(self) -> DatasetContent:
        """Read every byte: a `UserError` if one is not as it was written."""
        content = self.read()
        for key in sorted(content.tensors.keys() | content.digests.keys()):
            if key not in content.tensors or sha256_hex(content.tensors[key].numpy().data) != content.digests.get(key):
                raise _damaged(self.path, f"wrong bytes in {key}", self.remedy)
        return content

    def store(self, content: DatasetContent, work: Path) -> None:
        """Replace the file by `content`, whole or not at all; `work` is what `locked` gave."""
        about = {
            "format": FORMAT,
            "classes": content.classes,
            "source": content.source,
            "sha256": {key: sha256_hex(tensor.numpy().data) for key, tensor in content.tensors.items()},
        }
        text = json.dumps(about)
        # One entry, because safetensors writes several in any order: the same content shall give the same file.
        metadata = {"protoreplay": f"{sha256_hex(text.encode())} {text}"}
        fresh = work / self.path.name
        # safetensors makes files that nobody else may read: give it the permissions of any other new file.
        fresh.touch()
        mode = fresh.stat().st_mode
        try:
            safetensors.torch.save_file(dict(content.tensors), fresh, metadata)
        except safetensors.SafetensorError as error:
            raise OSError(None, str(error).rpartition("I/O error: ")[2]) from None
        fresh.chmod(mode)
        move_into_place(fresh, self.path)

    @contextlib.contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[Path]:
        """Hold the dataset against other processes; gives an empty working folder that is gone afterwards.

        The lock of a killed process is free, and what it left in its working folder is removed.
        """
        place = self.path.parent
        try:
            make_cache_folder(place)
            with held_lock(place / f".{self.name}.lock", say, f"another process is at work on {self.name}"):
                for leftover in place.glob(f".{self.name}.*.tmp"):
                    shutil.rmtree(leftover)
                with tempfile.TemporaryDirectory(prefix=f".{self.name}.", suffix=".tmp", dir=place) as work:
                    yield Path(work)
        except OSError as error:
            raise UserError(
                f"cannot write to {place}: {error.strerror or error}: "
                "free some space there, or set PROTOREPLAY_DATA to another folder"
            ) from None


def sha256_hex(content: bytes | memoryview) -> str:
    """SHA-256 of bytes, or of an array's bytes in C order."""
    return hashlib.sha256(content).hexdigest()


class _DatasetSaid(BaseModel):
    """The description in a file."""

    model_config = SCHEMA

    format: int
    classes: Annotated[list[PlainText], Field(max_length=1_000_000)]
    source: PlainText
    sha256: dict[str, str]


@functools.cache
def _dataset(path: Path, name: str, remedy: str, suffix: str) -> Dataset:
    content = _read(path, name, remedy)
    tensors = content.tensors
    try:
        labels = [tensors[f"{part}_labels"].long() for part in ("train", "test")]
        if f"all_images{suffix}" not in tensors:
            images = [tensors[f"{part}_images{suffix}"] for part in ("train", "test")]
            train, test = (ImageSet(*pair, content.classes) for pair in zip(images, labels, strict=True))
            return Dataset(name, train, test)
        together = ImageSet(tensors[f"all_images{suffix}"], torch.cat(labels), content.classes)
        cuts = slice(len(labels[0])), slice(len(labels[0]), None)
        train, test = (
            ImageSet(together.images[cut], one, content.classes) for cut, one in zip(cuts, labels, strict=True)
        )
        listed = tensors["all_files"]
    except (KeyError, ValueError) as error:
        raise _damaged(path, str(error), remedy) from None
    names = functools.cache(lambda: tuple(bytes(listed.numpy()).decode().split("\n")))
    return Dataset(name, train, test, together, names)


def _read(path: Path, name: str, remedy: str) -> DatasetContent:
    try:
        if path.exists() and not path.is_file():
            raise _damaged(path, "not a file", remedy)
        with safetensors.safe_open(path, framework="pt") as file:
            expected, _, text = (file.metadata() or {})["protoreplay"].partition(" ")
            if sha256_hex(text.encode()) != expected:
                raise _damaged(path, "wrong bytes in its description", remedy)
            about = checked_json(text, _DatasetSaid)
            if about.format != FORMAT:
                raise UserError(f"{path} was written by another version of protoreplay: `{remedy}` replaces it")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        _check_tensors(tensors, len(about.classes))
        return DatasetContent(tensors, tuple(about.classes), about.source, about.sha256)
    except FileNotFoundError:
        raise UserError(f"{name} is not on this machine: get it with `{remedy}`") from None
    except safetensors.SafetensorError as error:
        raise _damaged(path, str(error), remedy) from None
    except (KeyError, TypeError, ValueError):
        raise _damaged(path, "not a protoreplay file", remedy) from None


def _check_tensors(tensors: Mapping[str, Tensor], classes: int) -> None:
    """A `ValueError` where images are no images, or labels are of no class; no image is read for it."""
    for name, tensor in tensors.items():
        part, _, rest = name.partition("_")
        if rest.startswith("images") and (tensor.dtype != torch.uint8 or tensor.ndim != 4):
            raise ValueError(name)
        if rest == "labels":
            if tensor.dtype not in (torch.uint8, torch.int64) or tensor.ndim != 1:
                raise ValueError(name)
            if len(tensor) and not 0 <= int(tensor.min()) <= int(tensor.max()) < classes:
                raise ValueError(name)
            sizes = [other for key, other in tensors.items() if key.startswith(f"{part}_images")]
            if any(len(other) != len(tensor) for other in sizes):
                raise ValueError(name)


def _damaged(path: Path, why: str, remedy: str) -> UserError:
    return UserError(f"{path} is damaged ({why}): `{remedy}` replaces it")
