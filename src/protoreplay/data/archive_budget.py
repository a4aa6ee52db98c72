"""What an archive may cost, whatever it says of itself."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

from protoreplay.core.errors import UserError

PIECE = 2**20
"""Bytes that are read at a time."""
MOST_MEMBERS = 100_000
LONGEST_NAME = 4096
_FREE_BYTES, _EXPANSION = 2 * 2**30, 20
_FREE_SECONDS, _SECONDS_PER_BYTE = 60.0, 10 / 2**20


@dataclass
class ArchiveBudget:
    """What is left of the members, bytes and CPU seconds that reading an archive may take; `path` is its file.

    Photos are packed already and tables are small, so an archive of a dataset unpacks to about its own size: twenty
    times that, and 2 GiB for small ones, are allowed.
    """

    path: Path
    members: int = field(init=False)
    bytes: int = field(init=False)
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        """As much as a file of its size may need."""
        size = self.path.stat().st_size
        self.members = MOST_MEMBERS
        self.bytes = _FREE_BYTES + _EXPANSION * size
        self.seconds = _FREE_SECONDS + _SECONDS_PER_BYTE * size

    def spend(self, members: int = 0, size: int = 0) -> None:
        """Take off what is about to be read; a `UserError` if that is more than is left."""
        self.members -= members
        self.bytes -= size
        if self.members < 0:
            raise UserError(f"{self.path} is refused: it has more than {MOST_MEMBERS:,} members")
        if self.bytes < 0:
            raise UserError(f"{self.path} is refused: it unpacks to far more than its own size")

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the CPU seconds of this thread; a `UserError` once they are spent."""
        if self.seconds < 0:
            raise UserError(f"{self.path} is refused: it takes far longer to read than an archive of its size")
        started = time.thread_time()
        try:
            yield
        finally:
            self.seconds -= time.thread_time() - started


def checked_member(name: str, size: int, is_regular: bool, largest: int, path: Path) -> str:
    """A member's name, with `/` between its parts; a `UserError` for what no archive of data or photos holds."""
    place = PureWindowsPath(name)  # knows both kinds of slashes, and drives
    refused = f"{path} is refused: its member {name[:200]!r}"
    if place.anchor or ".." in place.parts or not place.parts:
        raise UserError(f"{refused} leads out of it")
    if len(name) > LONGEST_NAME:
        raise UserError(f"{refused} has a name of more than {LONGEST_NAME} characters")
    if not is_regular:
        raise UserError(f"{refused} is a link or a device, not a file")
    if size < 0:
        raise UserError(f"{refused} claims a negative size")
    if size > largest:
        raise UserError(f"{refused} claims more than {largest // 2**20} MiB")
    return place.as_posix()
