"""The tensors of a PyTorch file (`.pth`), read without PyTorch: loading it takes longer than all that photos need.

Such a file holds a pickle, and a general unpickler runs whatever code a pickle names. The one here knows the four names
of which a dictionary of tensors consists, and refuses every other.
"""

import collections
import io
import math
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from protoreplay.core.errors import UserError

Array = npt.NDArray[Any]
Storages = dict[str, Array]

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001


class _StorageType(NamedTuple):
    """Stands for `torch.FloatStorage` and its like; immutable, because a pickle may try to change what it names."""

    dtype: np.dtype[Any]


class _Unread:
    """A tensor whose numbers come later in the file."""

    def __init__(self, key: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object) -> None:
        self.key, self.offset, self.shape, self.strides = key, offset, shape, strides

    def read(self, storages: Mapping[str, Array]) -> Array:
        storage = storages[self.key]
        if len(self.shape) != len(self.strides) or min((0, self.offset, *self.shape, *self.strides)) < 0:
            raise ValueError("a tensor of impossible shape")
        last = self.offset + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        if not math.prod(self.shape):
            return np.zeros(self.shape, storage.dtype)
        if last >= len(storage):
            raise ValueError("a tensor larger than what is stored of it")
        size = storage.itemsize
        steps = tuple(size * stride for stride in self.strides)
        return np.ndarray(self.shape, storage.dtype, storage, self.offset * size, steps).copy(order="C")


_KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _Unread,
    ("torch", "FloatStorage"): _StorageType(np.dtype("<f4")),
    ("torch", "LongStorage"): _StorageType(np.dtype("<i8")),
}


class _Unpickler(pickle.Unpickler):
    """Knows `_KNOWN` only. What it is told of storages is noted in `types`: of each key the type and the length."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        super().__init__(file)
        self.types: dict[str, tuple[np.dtype[Any], int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no part of a dictionary of tensors")
        return _KNOWN[module, name]

    def persistent_load(self, identity: Any) -> str:
        kind, storage, key, _, count, *view = identity
        if kind != "storage" or not isinstance(storage, _StorageType) or any(view):
            raise pickle.UnpicklingError("it holds something else than tensors")
        self.types[str(key)] = (storage.dtype, int(count))
        return str(key)


def read_tensors(path: Path) -> dict[str, Array]:
    """The tensors of a `.pth` file by name, in its order, as C-contiguous arrays; a `UserError` for any other file."""
    try:
        with path.open("rb") as file:
            parse: Callable[[Any], dict[str, Array]] = _from_zip if zipfile.is_zipfile(file) else _from_stream
            file.seek(0)
            return parse(file)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a damaged pickle may raise anything; what this one may call is listed above
        raise UserError(f"{path} is not a PyTorch file of tensors: {' '.join(str(error).split())[:200]}") from None


def _from_stream(file: io.BufferedIOBase) -> dict[str, Array]:
    """The older format: pickles of a magic number, a version, the machine, the tensors, the storages' keys; numbers."""
    if (_Unpickler(file).load(), _Unpickler(file).load()) != (_MAGIC, _VERSION):
        raise ValueError("another magic number")
    _Unpickler(file).load()
    unpickler = _Unpickler(file)
    content = unpickler.load()
    storages: Storages = {}
    for key in _Unpickler(file).load():
        dtype, count = unpickler.types[key]
        (stored,) = struct.unpack("<q", file.read(8))
        if stored != count:
            raise ValueError("storages of another length than said")
        storages[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return _tensors(content, storages)


def _from_zip(file: io.BufferedIOBase) -> dict[str, Array]:
    """The newer format: `NAME/data.pkl`, and the numbers of each storage in `NAME/data/KEY`."""
    with zipfile.ZipFile(file) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        unpickler = _Unpickler(io.BytesIO(archive.read(pickled)))
        content = unpickler.load()
        folder = pickled.removesuffix(".pkl")
        storages = {
            key: np.frombuffer(archive.read(f"{folder}/{key}"), dtype) for key, (dtype, _) in unpickler.types.items()
        }
    return _tensors(content, storages)


def _tensors(content: Any, storages: Storages) -> dict[str, Array]:
    if not isinstance(content, dict) or not all(isinstance(tensor, _Unread) for tensor in content.values()):
        raise ValueError("it holds something else than tensors by name")
    return {str(name): tensor.read(storages) for name, tensor in content.items()}
