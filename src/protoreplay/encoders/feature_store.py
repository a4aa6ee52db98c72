"""Features on disk, by the content of images: made once for all runs, processes and commands of a user.

One folder for each encoder's fingerprint, in it files of some hundred images each. A file is written whole or not at
all, and never changed. Who makes features holds the folder's lock meanwhile, so that others wait and find them made.
The files that were not used for the longest time go when all together grow over a limit. A file that is damaged, or a
disk that is full or read-only, costs time only.
"""

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from protoreplay.core.checked_json import SCHEMA, PlainText, checked_json
from protoreplay.core.files import open_regular, write_whole
from protoreplay.core.locks import held_lock
from protoreplay.core.places import cache_folder, make_cache_folder

FeatureRows = npt.NDArray[np.float32]

LIMIT = 2_000_000_000
"""Bytes of features, of all encoders, that are kept."""
PIECE = 256
"""Images of a file at most; a maker that is killed loses at most so many."""
SMALL_FILES = 32
"""So many files of fewer images than that become one."""
KEY = hashlib.sha256().digest_size
SUFFIX = ".features"
MOST_BYTES, LONGEST_HEAD = 2**30, 2**16
"""Of a file, and of its first line."""


class FeatureStore:
    """The features of one encoder.

    Args:
        fingerprint: of the encoder.
        name: of the encoder, for lists.
        root: the folder of all encoders' features.
        limit: bytes that are kept in it.
    """

    def __init__(self, fingerprint: str, name: str, root: Path | None = None, limit: int = LIMIT) -> None:
        self._about = {"fingerprint": fingerprint, "encoder": name}
        self._root = root or features_folder()
        self._limit = limit
        self._folder = self._root / fingerprint[:32]
        self._files: dict[Path, StoredRows] = {}
        self._places: dict[bytes, tuple[Path, int]] = {}
        """Of each image known: its file, and which row of it."""
        self._seen: set[Path] = set()
        self._used: set[Path] = set()

    def rows(
        self,
        keys: Sequence[bytes],
        make: Callable[[int], FeatureRows],
        tell: Callable[[int, int], None] = lambda done, total: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> FeatureRows:
        """The features of images, N x D.

        Args:
            keys: of each image, a SHA-256 over its content; N.
            make: embeds the image at a place among the keys, D.
            tell: told while features are made how many of how many there are.
            say: told in one line where another process is waited for.
        """
        if self._missing(keys):
            self._read_new()
        if self._missing(keys):
            self._make_missing(keys, make, tell, say)
        places = [self._places[key] for key in keys]
        self._note_use({path for path, _ in places})
        return np.stack([self._files[path].rows[place] for path, place in places])

    def _missing(self, keys: Sequence[bytes]) -> list[int]:
        """The places of images of which nothing is known, each image once."""
        first = {key: place for place, key in reversed(list(enumerate(keys))) if key not in self._places}
        return sorted(first.values())

    def _make_missing(
        self,
        keys: Sequence[bytes],
        make: Callable[[int], FeatureRows],
        tell: Callable[[int, int], None],
        say: Callable[[str], None],
    ) -> None:
        with self._locked(say):
            self._read_new()  # what another process made while this one waited
            missing = self._missing(keys)
            for start in range(0, len(missing), PIECE):
                made = []
                for done, place in enumerate(missing[start : start + PIECE], start=start + 1):
                    made.append(make(place))
                    tell(done, len(missing))
                self._add([keys[place] for place in missing[start : start + PIECE]], np.stack(made))

    @contextlib.contextmanager
    def _locked(self, say: Callable[[str], None]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # where nothing can be written, every process makes its own
                make_cache_folder(self._folder)
                busy = f"another process makes features of {self._about['encoder']}"
                stack.enter_context(held_lock(self._folder / ".lock", say, busy))
                for leftover in self._folder.glob(".*.tmp"):
                    leftover.unlink()
            yield

    def _add(self, keys: list[bytes], rows: FeatureRows) -> None:
        self._write(keys, rows)
        self._merge_small_files()
        with contextlib.suppress(OSError):
            shrink(self._root, self._limit)

    def _write(self, keys: list[bytes], rows: FeatureRows) -> Path | None:
        """The new file, None where it cannot be written; the features are known in any case."""
        body = b"".join(keys) + np.ascontiguousarray(rows, np.float32).tobytes()
        digest = hashlib.sha256(body).hexdigest()
        about = {**self._about, "images": len(keys), "width": rows.shape[1], "sha256": digest}
        path = self._folder / f"{digest[:32]}{SUFFIX}"
        self._seen.add(path)
        self._know(path, StoredRows(keys, rows))
        try:
            write_whole(path, json.dumps(about).encode() + b"\n" + body)
        except OSError:
            return None
        return path

    def _merge_small_files(self) -> None:
        """Make one file of many small ones: a run may need only a few images that no other had, and runs are many.

        Who has read the small ones keeps them; who had not finds the new one.
        """
        small = [path for path, one in self._files.items() if len(one.keys) < PIECE and path.exists()]
        if len(small) < SMALL_FILES:
            return
        members = {key: row for path in small for key, row in zip(*self._files[path], strict=True)}
        merged = self._write(list(members), np.stack(list(members.values())))
        for path in small:
            if merged not in (None, path):
                with contextlib.suppress(OSError):
                    path.unlink()
                del self._files[path]

    def _know(self, path: Path, stored: "StoredRows") -> None:
        self._files[path] = stored
        self._places |= {key: (path, place) for place, key in enumerate(stored.keys)}

    def _read_new(self) -> None:
        """Open the files that were not there when this process looked last."""
        paths = set(self._folder.glob(f"[!.]*{SUFFIX}")) if self._folder.is_dir() else set()
        for path in sorted(paths - self._seen):
            self._seen.add(path)
            try:
                stored = _read_rows(path, self._about["fingerprint"])
            except FileNotFoundError:
                continue  # merged or removed meanwhile
            except (OSError, ValueError):
                with contextlib.suppress(OSError):
                    path.unlink()  # damaged: it is made anew
            else:
                self._know(path, stored)

    def _note_use(self, paths: set[Path]) -> None:
        for path in paths - self._used:
            with contextlib.suppress(OSError):
                os.utime(path)
        self._used |= paths


class _PieceSaid(BaseModel):
    """The first line of a file: what is in it."""

    model_config = SCHEMA

    fingerprint: PlainText
    encoder: PlainText
    images: Annotated[int, Field(ge=1, le=2**20)]
    width: Annotated[int, Field(ge=1, le=2**24)]
    sha256: str


class StoredRows(NamedTuple):
    """The content of a file: the keys of N images, and their features, N x D."""

    keys: list[bytes]
    rows: FeatureRows


def _read_head(path: Path) -> _PieceSaid:
    with path.open("rb") as file:
        return checked_json(file.readline(LONGEST_HEAD), _PieceSaid)


def _read_rows(path: Path, fingerprint: str) -> StoredRows:
    # Not by memory map: another machine may remove the file, and on network disks that would end this process.
    with open_regular(path, MOST_BYTES) as file:
        about = checked_json(file.readline(LONGEST_HEAD), _PieceSaid)
        body = file.read()
    count, width = about.images, about.width
    whole = about.fingerprint == fingerprint and about.sha256 == hashlib.sha256(body).hexdigest()
    if not whole or len(body) != count * (KEY + 4 * width):
        raise ValueError("damaged")
    rows = np.frombuffer(body, np.float32, offset=count * KEY).reshape(count, width)
    return StoredRows([body[start : start + KEY] for start in range(0, count * KEY, KEY)], rows)


@functools.lru_cache(maxsize=16)
def feature_store(fingerprint: str, name: str, root: Path) -> FeatureStore:
    """The store of an encoder, one for all runs of a process."""
    return FeatureStore(fingerprint, name, root)


def features_folder() -> Path:
    """Where features are kept."""
    return cache_folder() / "features"


def shrink(root: Path, limit: int) -> None:
    """Where files take more than `limit` bytes, remove those not used for the longest time until a tenth is free."""
    files = []
    for path in root.glob(f"*/[!.]*{SUFFIX}"):
        with contextlib.suppress(OSError):
            about = path.stat()
            files.append((about.st_mtime_ns, about.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    for _, size, path in sorted(files):
        with contextlib.suppress(OSError):  # some systems keep a file that another process has open
            path.unlink(missing_ok=True)
            total -= size
        if total <= 0.9 * limit:
            return


@dataclass(frozen=True)
class StoredFeatures:
    """What is kept of one encoder: its name and fingerprint, how many images, and their bytes."""

    encoder: str
    fingerprint: str
    images: int
    bytes: int


def stored_features(root: Path | None = None) -> list[StoredFeatures]:
    """What is kept, by encoder."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for path in sorted((root or features_folder()).glob(f"*/[!.]*{SUFFIX}")):
        try:
            about = _read_head(path)
            key = about.encoder, about.fingerprint
            images, size = found.get(key, (0, 0))
            found[key] = images + about.images, size + path.stat().st_size
        except (OSError, ValueError):
            continue
    return [StoredFeatures(*key, *totals) for key, totals in sorted(found.items())]
