"""Zip files read member by member into memory, within bounds: stored and deflated members only."""

import io
import stat
import threading
import weakref
import zipfile
import zlib
from pathlib import Path
from typing import Any

from protoreplay.core.errors import UserError
from protoreplay.data.archive_budget import LONGEST_NAME, PIECE, ArchiveBudget, checked_member

_LARGEST_READ = 64 * 2**20
"""Bytes of the list of members, which zipfile reads as one piece: 100,000 members with names of 600 characters."""


class ZipReader:
    """An open zip file, for many threads.

    Args:
        path: of the file.
        largest: bytes that a member may have.
    """

    def __init__(self, path: Path, largest: int) -> None:
        self.path = path
        self._largest, self._lock = largest, threading.Lock()
        try:
            self._budget = ArchiveBudget(path)
            self._file = _SmallReads(path.open("rb", buffering=0))
            weakref.finalize(self, self._file.close)
            with self._budget.timed():
                self._archive = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise UserError(f"{path} is no zip file, or only a part of one ({error})") from None

    def close(self) -> None:
        """Close the file, which otherwise closes with the last photo that is read from it."""
        self._archive.close()
        self._file.close()

    def members(self) -> list[tuple[str, zipfile.ZipInfo]]:
        """All files in it, with `/` between the parts of their names; a `UserError` for a harmful one."""
        infos = self._archive.infolist()
        self._budget.spend(members=len(infos))
        return [(self._checked(member), member) for member in infos if not member.is_dir()]

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """The bytes of a member, in pieces up to the size that it claims; a `UserError` if there are more or fewer."""
        content = io.BytesIO()  # which gives its bytes away without a copy
        try:
            with self._lock, self._archive.open(member) as file:
                self._budget.spend(size=member.file_size)
                while content.tell() <= member.file_size:
                    with self._budget.timed():
                        piece = file.read(min(PIECE, member.file_size + 1 - content.tell()))
                    if not piece:
                        break
                    content.write(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise UserError(f"unreadable ({' '.join(str(error).split())})") from None
        if content.tell() != member.file_size:
            raise UserError("unreadable (its size is not the one that the zip file claims)")
        return content.getvalue()

    def _checked(self, member: zipfile.ZipInfo) -> str:
        regular = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG)
        name = checked_member(member.filename, member.file_size, regular, self._largest, self.path)
        if member.flag_bits & 1:
            raise UserError(f"{self.path} is encrypted: unpack it and give the folder")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UserError(
                f"{self.path} is refused: its member {name[:LONGEST_NAME]!r} is packed in an unusual way: "
                "unpack it and give the folder"
            )
        return name


class _SmallReads(io.BufferedReader):
    """A file of which nobody reads very much at a time, whatever the file itself says."""

    def read(self, size: Any = -1, /) -> bytes:
        if size is not None and size > _LARGEST_READ:
            raise zipfile.BadZipFile("its list of members is too long")
        return super().read(size)
