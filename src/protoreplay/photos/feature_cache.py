"""Features of photos seen before, by the content of their files: teaching or asking the same photos again is instant.

One SQLite file in the user's cache folder, for all models; it knows photos by the SHA-256 of their bytes only, and
nothing of classes. The least recently used go when it grows over its limit; `forget` removes those of its class.
Whatever is wrong with the file costs time only: it is made anew.
"""

import contextlib
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import numpy as np

from protoreplay.core.places import cache_folder
from protoreplay.encoders.pretrained import Features
from protoreplay.prototypes.sums import Keys

CachedPhoto = tuple[Features, int]
"""The features, D, and the perceptual hash."""

LIMIT = 500_000_000
"""Bytes of features, about 50,000 photos of the default encoder."""

_TABLE = """CREATE TABLE IF NOT EXISTS photos (
    encoder TEXT, photo BLOB, used INTEGER, vector BLOB, PRIMARY KEY (encoder, photo)) WITHOUT ROWID"""


class FeatureCache:
    """The features of one encoder. May be used from many threads; writes wait until `flush`.

    Args:
        fingerprint: of the encoder.
        path: of the file.
        limit: bytes of features, of all encoders, to keep.
    """

    def __init__(self, fingerprint: str, path: Path | None = None, limit: int = LIMIT) -> None:
        self.fingerprint, self.limit = fingerprint, limit
        self.path = path or cache_folder() / "features.sqlite"
        self._lock = threading.Lock()
        self._fresh: dict[bytes, CachedPhoto] = {}
        self._used: set[bytes] = set()
        self._database = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.flush()
        if self._database:
            self._database.close()

    def get(self, photo: bytes) -> CachedPhoto | None:
        """The features and the look of the photo whose file has this SHA-256, if they are known."""
        with self._lock, self._tolerated():
            if self._database:
                query = "SELECT vector FROM photos WHERE encoder = ? AND photo = ?"
                if row := self._database.execute(query, (self.fingerprint, photo)).fetchone():
                    content, check = row[0][:-4], row[0][-4:]
                    if zlib.crc32(content).to_bytes(4) == check:
                        self._used.add(photo)
                        return np.frombuffer(content[8:], np.float32), int.from_bytes(content[:8])
        return None

    def put(self, photos: Mapping[bytes, CachedPhoto]) -> None:
        """Remember photos by SHA-256."""
        with self._lock:
            self._fresh.update(photos)

    def flush(self) -> None:
        """Write what is new, note what was used, and drop the oldest over the limit."""
        with self._lock, self._tolerated():
            if not self._database:
                return
            now = time.time_ns()
            # SQLite does not notice a bit that flips on the disk: a checksum does.
            contents = {photo: look.to_bytes(8) + vector.tobytes() for photo, (vector, look) in self._fresh.items()}
            rows = [(self.fingerprint, p, now, c + zlib.crc32(c).to_bytes(4)) for p, c in contents.items()]
            used = [(now, self.fingerprint, photo) for photo in self._used]
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO photos VALUES (?, ?, ?, ?)", rows)
                self._database.executemany("UPDATE photos SET used = ? WHERE encoder = ? AND photo = ?", used)
                if rows:
                    self._shrink()
            self._fresh, self._used = {}, set()

    def discard(self, prefixes: Iterable[bytes]) -> None:
        """Remove the photos whose SHA-256 begin with any of these, under every encoder, from the disk too."""
        with self._lock, self._tolerated():
            if self._database:
                ranges = [(prefix, prefix + b"\xff" * 32) for prefix in prefixes]
                with self._database:
                    self._database.execute("PRAGMA secure_delete = ON")
                    self._database.executemany("DELETE FROM photos WHERE photo BETWEEN ? AND ?", ranges)
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _shrink(self) -> None:
        assert self._database
        (total,) = self._database.execute("SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM photos").fetchone()
        if total <= self.limit:
            return
        for encoder, photo, size in self._database.execute(
            "SELECT encoder, photo, LENGTH(vector) FROM photos ORDER BY used"
        ).fetchall():
            self._database.execute("DELETE FROM photos WHERE encoder = ? AND photo = ?", (encoder, photo))
            total -= size
            if total <= 0.9 * self.limit:
                return

    def _open(self) -> sqlite3.Connection | None:
        for _ in range(2):
            with contextlib.suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                database = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(_TABLE)
                database.execute("DROP TABLE IF EXISTS features")  # of before photos had a look
                return database
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    return None  # no place to write, or another process holds it for long
                self._remove()
        return None

    @contextlib.contextmanager
    def _tolerated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if self._database and not isinstance(error, sqlite3.OperationalError):
                self._database.close()
                self._remove()
            self._database = None

    def _remove(self) -> None:
        for path in (self.path, *self.path.parent.glob(f"{self.path.name}-*")):
            with contextlib.suppress(OSError):
                path.unlink()


def discard_features(keys: Keys) -> None:
    """Remove photos, known by the first eight bytes of their SHA-256 as numbers, under every encoder, from the disk."""
    with FeatureCache("") as cache:
        cache.discard(int(key).to_bytes(8, "big") for key in keys)
