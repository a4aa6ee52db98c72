"""Folders, .tar, .tar.gz and .zip read as streams of named members. Nothing is ever extracted to a path."""

import contextlib
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PureWindowsPath
from typing import Self

from protoreplay.core.errors import UserError

LARGEST = 64 * 2**20
"""Bytes that one member may have unless more is asked for: MNIST's training images have 47 million."""

Member = tuple[str, Callable[[], bytes]]
"""A member's name, with `/` between its parts, and a function that reads it while it is the current one."""

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, ValueError)


def archive_members(path: Path, largest: int | None = None) -> Iterator[Member]:
    """The files of a folder (down to the third level) or of an archive, one after the other.

    A `UserError` if it cannot be read, or holds what no dataset holds: a link, a device, a path that leads out of it,
    a member beyond all size. That a bad member comes last is no harm: what was read before is only in memory.
    """
    largest = LARGEST if largest is None else largest
    opened = _of_folder if path.is_dir() else _of_zip if zipfile.is_zipfile(path) else _of_tar
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
        raise _absurd(path.name, LARGEST)
    return content


def _of_folder(path: Path, largest: int) -> Iterator[Member]:
    # No deeper than `top/images/file`, so that links to folders, which people do use, can be followed without loops.
    for pattern in ("*", "*/*", "*/*/*"):
        for file in sorted(path.glob(pattern)):
            if file.is_file():
                yield file.relative_to(path).as_posix(), file.read_bytes


def _of_zip(path: Path, largest: int) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            kind = stat.S_IFMT(member.external_attr >> 16)
            name = _safe_name(member.filename, member.file_size, kind in (0, stat.S_IFREG), largest)
            if member.flag_bits & 1:
                raise UserError(f"{path} is encrypted: unpack it and import the folder")
            yield name, lambda member=member: archive.read(member)  # type: ignore[misc]


def _bounded_member(largest: int) -> type[tarfile.TarInfo]:
    class BoundedMember(tarfile.TarInfo):
        """Checks the size in every header, those of long names included, which tarfile reads into memory by itself."""

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            member = super().frombuf(buf, encoding, errors)
            if member.size > largest:
                raise _absurd(member.name, largest)
            return member

    return BoundedMember


def _of_tar(path: Path, largest: int) -> Iterator[Member]:
    with tarfile.open(path, tarinfo=_bounded_member(largest)) as archive:
        for member in archive:
            if member.isdir():
                continue
            name = _safe_name(member.name, member.size, member.isreg(), largest)
            yield name, lambda member=member: _tar_content(archive, member)  # type: ignore[misc]


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    content = file.read() if file else b""
    if len(content) != member.size:
        raise EOFError(f"{member.name} is cut off")
    return content


def _safe_name(name: str, size: int, is_regular: bool, largest: int) -> str:
    path = PureWindowsPath(name)  # knows both kinds of slashes, and drives
    if path.anchor or ".." in path.parts or not path.parts:
        raise UserError(f"the archive is refused: its member {name} leads out of it")
    if not is_regular:
        raise UserError(f"the archive is refused: its member {name} is a link or a device, not a file")
    if size > largest:
        raise _absurd(name, largest)
    return path.as_posix()


def _absurd(name: str, largest: int) -> UserError:
    return UserError(f"{name} is refused: it claims more than {largest // 2**20} MiB")
