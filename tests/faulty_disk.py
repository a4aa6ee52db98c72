"""A disk that fails at a moment of one's choice, for code of this process: below a folder, the n-th of all writes,
syncs, renames and new folders is an error. What libraries of other languages write (SQLite, safetensors) is not seen.
"""

import contextlib
import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

CODES = (errno.ENOSPC, errno.EIO, errno.EINTR)


class FaultyDisk:
    """Counts operations below `root`; the one of the number `fail_at` fails with `code`, 0 for none.

    A full disk stays full for whatever writes; any other fault comes once. A write that fails has written a half.
    """

    def __init__(self, root: Path, fail_at: int = 0, code: int = errno.ENOSPC) -> None:
        self.root, self.fail_at, self.code = str(root), fail_at, code
        self.count, self.failed = 0, ""

    def _fails(self, kind: str, path: Any) -> bool:
        if not str(path).startswith(self.root):
            return False
        self.count += 1
        if self.count == self.fail_at:
            self.failed = f"{kind} {path}"
            return True
        full = self.code == errno.ENOSPC and kind in ("write", "mkdir")
        return bool(self.fail_at) and self.count > self.fail_at and full

    def _error(self, path: Any) -> OSError:
        return OSError(self.code, os.strerror(self.code), str(path))

    def _wrapped(self, kind: str, call: Any, place: Any = lambda path: path) -> Any:
        def wrapper(path: Any, *given: Any, **named: Any) -> Any:
            where = place(path)
            if self._fails(kind, where):
                raise self._error(where)
            return call(path, *given, **named)

        return wrapper

    def _opened(self, call: Any) -> Any:
        disk = self

        class FaultyFile(io.FileIO):
            torn = False

            def write(self, data: Any, /) -> int:
                path, half = _path_of(self.fileno()), bytes(data)[: len(data) // 2]
                if self.torn:
                    self.torn = False
                    raise disk._error(path)
                if disk._fails("write", path):
                    if not half or disk.code == errno.EINTR:
                        raise disk._error(path)
                    self.torn = True  # as a disk does it: first fewer bytes than were given, and then the error
                    return super().write(half)
                return super().write(data)

        def opening(file: Any, mode: str = "r", buffering: int = -1, *given: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+") or buffering == 0:
                return call(file, mode, buffering, *given, **named)
            path = _path_of(file) if isinstance(file, int) else _absolute(file)
            if not path.startswith(self.root):
                return call(file, mode, buffering, *given, **named)
            plain = mode.replace("b", "").replace("t", "")
            raw = FaultyFile(file, plain, closefd=named.pop("closefd", True), opener=named.pop("opener", None))
            buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *given, **named)

        return opening

    @contextlib.contextmanager
    def at_work(self) -> Iterator["FaultyDisk"]:
        """While it lasts, every file below the folder is on this disk."""
        opening = self._opened(io.open)
        with (
            mock.patch("io.open", opening),
            mock.patch("builtins.open", opening),
            mock.patch("os.fsync", self._wrapped("fsync", lambda file: None, _path_of)),  # nothing waits for a disk
            mock.patch("os.replace", self._wrapped("rename", os.replace, _absolute)),
            mock.patch("os.rename", self._wrapped("rename", os.rename, _absolute)),
            mock.patch("os.mkdir", self._wrapped("mkdir", os.mkdir, _absolute)),
            mock.patch("shutil._USE_CP_SENDFILE", False),  # so that copies are writes, too
        ):
            yield self


def _path_of(file: int) -> str:
    return str(Path(f"/proc/self/fd/{file}").readlink())


def _absolute(path: Any) -> str:
    return str(Path(os.fsdecode(path)).absolute())
