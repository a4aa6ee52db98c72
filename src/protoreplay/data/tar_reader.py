"""Tar files, packed by gzip or not, read member by member from front to back, within bounds.

tarfile follows chains of headers by recursion, goes where a header's size leads it, backwards too, and keeps all it has
seen; so only its reading of one header is used here.
"""

import contextlib
import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from protoreplay.core.errors import UserError
from protoreplay.data.archive_budget import PIECE, ArchiveBudget, checked_member

_LARGEST_EXTRA = 64 * 2**10
"""Bytes of a header of text: a long name, or what POSIX calls an extended header."""
_MOST_EXTRAS = 8
"""Such headers before one member; there are two or three."""
_LONG_NAME, _LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
_PAX, _GLOBAL_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE), tarfile.XGLTYPE
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


def tar_members(path: Path, largest: int) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names of members, and what reads each while it is the current one."""
    with contextlib.ExitStack() as stack:
        file: BinaryIO = stack.enter_context(path.open("rb"))
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = stack.enter_context(gzip.GzipFile(fileobj=file)) if packed else file
        reader = _TarStream(stream, ArchiveBudget(path))  # type: ignore[arg-type]
        while member := reader.next_header():
            if not member.isdir():
                regular = member.type in _REGULAR
                name = checked_member(member.name, member.size, regular, largest, path)
                yield name, reader.content


class _TarStream:
    """The headers of a tar file one after the other."""

    def __init__(self, stream: io.BufferedIOBase, budget: ArchiveBudget) -> None:
        self._stream, self._budget = stream, budget
        self._unread = self._padding = 0

    def next_header(self) -> tarfile.TarInfo | None:
        """That of the next member, with its long name and size; None at the end."""
        extras: dict[str, str] = {}
        for _ in range(_MOST_EXTRAS):
            self._skip()
            block = self._read(tarfile.BLOCKSIZE, may_end=True)
            self._budget.spend(members=1)
            if not block.strip(b"\0"):
                return None
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if header.size < 0:
                raise tarfile.HeaderError("a member claims a negative size")
            self._unread, self._padding = header.size, -header.size % tarfile.BLOCKSIZE
            if header.type in (_LONG_NAME, _LONG_LINK, *_PAX, _GLOBAL_PAX):
                extras |= self._extra(header)
                continue
            header.name = extras.get("path", header.name)
            if "size" in extras:
                header.size = int(extras["size"])
                if header.size < 0:
                    raise tarfile.HeaderError("a member claims a negative size")
                self._unread, self._padding = header.size, -header.size % tarfile.BLOCKSIZE
            if header.type in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
                self._unread = self._padding = 0
            return header
        raise tarfile.HeaderError("headers without end")

    def content(self) -> bytes:
        """The bytes of the current member."""
        parts = bytearray()
        while self._unread:
            piece = self._read(min(PIECE, self._unread))
            self._unread -= len(piece)
            parts += piece
        return bytes(parts)

    def _extra(self, header: tarfile.TarInfo) -> dict[str, str]:
        """What a header of text says of the next member's path and size."""
        if header.size > _LARGEST_EXTRA:
            raise UserError(
                f"{header.name[:200]} is refused: it claims more than {_LARGEST_EXTRA // 2**10} KiB of names"
            )
        content = self.content()
        if header.type == _LONG_NAME:
            return {"path": content.rstrip(b"\0").decode("utf-8", "surrogateescape")}
        if header.type not in _PAX:
            return {}
        found: dict[str, str] = {}
        while content:
            length = int(content.partition(b" ")[0])
            if not 3 < length <= len(content):
                raise tarfile.HeaderError("a header's parts do not fit")
            key, _, value = content[:length].partition(b" ")[2].partition(b"=")
            found[key.decode("utf-8", "replace")] = value[:-1].decode("utf-8", "surrogateescape")
            content = content[length:]
        if any(key.startswith("GNU.sparse") for key in found):
            raise tarfile.HeaderError("a member has holes")
        return found

    def _skip(self) -> None:
        left, self._unread, self._padding = self._unread + self._padding, 0, 0
        while left:
            left -= len(self._read(min(PIECE, left)))

    def _read(self, size: int, may_end: bool = False) -> bytes:
        self._budget.spend(size=size)
        with self._budget.timed():
            piece = self._stream.read(size)
        if len(piece) < size and not (may_end and not piece):
            raise EOFError("it is cut off")
        return piece
