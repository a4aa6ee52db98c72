"""Folders, .tar, .tar.gz and .zip read as streams of named members. Nothing is ever extracted to a path."""

import contextlib
import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from protoreplay.core.errors import UserError
from protoreplay.data.archive_budget import checked_member
from protoreplay.data.tar_reader import tar_members
from protoreplay.data.zip_reader import ZipReader

LARGEST = 64 * 2**20
"""Bytes that one member may have unless more is asked for: MNIST's training images have 47 million."""

Member = tuple[str, Callable[[], bytes]]
"""A member's name, with `/` between its parts, and a function that reads it while it is the current one."""

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError)


def archive_members(path: Path, largest: int | None = None) -> Iterator[Member]:
    """The files of a folder (down to the third level) or of an archive, one after the other.

    A `UserError` if it cannot be read, or holds what no dataset holds: a link, a device, a path that leads out of it,
    a member beyond all size, more members or bytes than an archive of its size (`archive_budget`). That a bad member
    comes last is no harm: what was read before is only in memory.
    """
    largest = LARGEST if largest is None else largest
    opened = _of_folder if path.is_dir() else _of_zip if zipfile.is_zipfile(path) else tar_members
    with _archive_errors(path):
        for name, content in opened(path, largest):
            yield name, _archive_errors(path)(content)


@contextlib.contextmanager
def _archive_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} is damaged, or no folder, .tar, .tar.gz or .zip ({why})") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def read_members(path: Path, wanted: Collection[str], largest: int | None = None) -> dict[str, bytes]:
    """The content of the members called `wanted`, each of `largest` bytes at most: a `UserError` if one is missing."""
    found = {name: content() for name, content in archive_members(path, largest) if name in wanted}
    if missing := sorted(set(wanted) - found.keys()):
        raise UserError(f"{path} has no {missing[0]}")
    return found


def gunzip(path: Path) -> bytes:
    """The content of a .gz file."""
    try:
        with gzip.open(path) as file:
            content = file.read(LARGEST + 1)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(f"{path.name} is damaged ({error})") from None
    if len(content) > LARGEST:
        raise UserError(f"{path.name} is refused: it unpacks to more than {LARGEST // 2**20} MiB")
    return content


def _of_folder(path: Path, largest: int) -> Iterator[Member]:
    # No deeper than `top/images/file`, so that links to folders, which people do use, can be followed without loops.
    for pattern in ("*", "*/*", "*/*/*"):
        for file in sorted(path.glob(pattern)):
            if file.is_file():
                name = checked_member(file.relative_to(path).as_posix(), file.stat().st_size, True, largest, path)
                yield name, file.read_bytes


def _of_zip(path: Path, largest: int) -> Iterator[Member]:
    reader = ZipReader(path, largest)
    with contextlib.closing(reader):
        for name, member in reader.members():
            yield name, lambda name=name, member=member: _zip_content(reader, name, member)  # type: ignore[misc]


def _zip_content(reader: ZipReader, name: str, member: zipfile.ZipInfo) -> bytes:
    try:
        return reader.read(member)
    except UserError as error:
        raise UserError(f"{reader.path} is damaged: {name}: {error}") from None
