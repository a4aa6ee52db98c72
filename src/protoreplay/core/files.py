"""Files that are written whole or not at all, files that are read with a limit, and what a folder shows.

What goes wrong is an `OSError` that names the file, as of any other call that reads or writes.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from protoreplay.core.errors import UserError

_TEMPORARY = re.compile(r"\.(\d+|[0-9a-f]{16})\.tmp")
"""How names end of files that are being written; a number alone is what they had in earlier versions."""
_LONGEST_STEM = 200
"""Bytes of a file's name that are in the name of its temporary file, too: a name may have 255."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file by `content`, so that a reader, or a kill at any moment, finds the old or the new one.

    A link is followed to the file that it names. Mode and owner stay; a new file has those of any other new file. What
    is read-only, or is no file, is refused.
    """
    place = _checked_place(path)
    temporary = place.with_name(f"{_stem(place)}.{secrets.token_hex(8)}.tmp")
    try:
        # Until it has the mode of the file that it replaces, nobody else may read it.
        mode = 0o600 if place.exists() else 0o666
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
        move_into_place(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


def move_into_place(temporary: Path, path: Path) -> None:
    """Replace `path` by a finished file of the same disk, which is safely on that disk first."""
    place = _checked_place(path)
    with temporary.open("rb+") as file:
        if place.exists() and hasattr(os, "fchown"):
            _take_mode_and_owner(file.fileno(), place.stat())
        os.fsync(file.fileno())
    temporary.replace(place)
    sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Have a file that was made or renamed there be on the disk under its name."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:  # of a system that cannot open folders, or a folder that may be written to and not read
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that knows no such thing
            raise
    finally:
        os.close(opened)


def remove_leftovers(path: Path) -> None:
    """Remove what killed writers of this file have left beside it; call it while the file is locked."""
    place = Path(os.path.realpath(path))
    stem = _stem(place)
    for entry in place.parent.iterdir():
        if entry.name.startswith(stem) and _TEMPORARY.fullmatch(entry.name, len(stem)):
            entry.unlink(missing_ok=True)


@contextlib.contextmanager
def open_regular(path: Path, most: int) -> Iterator[BinaryIO]:
    """A file of at most so many bytes, open to be read; what is no regular file, such as a pipe, is refused at once."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        about = os.fstat(file.fileno())
        _require_regular(about.st_mode, path)
        if about.st_size > most:
            raise OSError(errno.EFBIG, f"this file is larger than {most:,} bytes: refused", str(path))
        yield file


def read_regular(path: Path, most: int) -> bytes:
    """The content of such a file."""
    with open_regular(path, most) as file:
        return file.read(most)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and the folders above it that are missing, for this user alone."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            place.mkdir(mode=0o700)


def check_output(path: Path, inputs: Iterable[Path] = (), force: bool = False) -> None:
    """A `UserError` if writing there would replace an input, or, without `force`, anything at all."""
    if any(path.exists() and one.exists() and path.samefile(one) for one in inputs):
        raise UserError(f"{path} is an input of this command and would be overwritten: give another name")
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file")
    if path.exists() and not force:
        raise UserError(f"{path} already exists: give another name, or --force to replace it")


def visible_entries(folder: Path) -> list[Path]:
    """The files and folders in a folder that are not hidden, in the order of their names."""
    return sorted((entry for entry in folder.iterdir() if not entry.name.startswith(".")), key=lambda e: e.name)


def _stem(place: Path) -> str:
    """How the names of the temporary files of a file begin."""
    return os.fsdecode(b"." + os.fsencode(place.name)[:_LONGEST_STEM])


def _checked_place(path: Path) -> Path:
    """The file that is meant, behind all links, which is there and may be replaced, or is not there."""
    place = Path(os.path.realpath(path))
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return place
    _require_regular(mode, path)
    # Root may write to anything: what the mode says is meant for root, too.
    if not mode & 0o222 or not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, "this file is read-only: left as it is", str(path))
    return place


def _require_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "this is not a regular file: refused", str(path))


def _take_mode_and_owner(file: int, old: os.stat_result) -> None:
    """Whoever may read a file may read it after a change, and nobody else."""
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(file, old.st_uid, old.st_gid)
        except PermissionError:  # the owner is another user, who lets us change the file
            with contextlib.suppress(PermissionError):
                os.fchown(file, -1, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode))
