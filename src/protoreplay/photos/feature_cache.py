"""Features of photos seen before, by the content of their files: teaching or asking the same photos again is instant.

One SQLite file in the user's cache folder, for all models; it knows photos by the SHA-256 of their bytes only, and
nothing of classes. The least recently used go when it grows over its limit; `forget` removes those of its class.
Whatever is wrong with the file costs time only: it is made anew.
"""

import contextlib
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.core.places import cache_folder, make_cache_folder
from protoreplay.core.words import counted
from protoreplay.encoders.pretrained import Features
from protoreplay.prototypes.sums import Keys

CachedPhoto = tuple[Features, int]
"""The features, D, and the perceptual hash."""

LIMIT = 500_000_000
"""Bytes of features, about 50,000 photos of the default encoder."""

_COLUMNS = "(encoder TEXT, photo BLOB, used INTEGER, vector BLOB, PRIMARY KEY (encoder, photo)) WITHOUT ROWID"
PATIENCE = 30.0
"""Seconds that removing features waits for other processes to let go of the file."""


class FeatureCache:
    """The features of one encoder. May be used from many threads; writes wait until `flush`.

    Args:
        fingerprint: of the encoder.
        path: of the file.
        limit: bytes of features, of all encoders, to keep.
        width: the number of features D; what has another one is not known.
    """

    def __init__(
        self, fingerprint: str, path: Path | None = None, limit: int = LIMIT, width: int | None = None
    ) -> None:
        self.fingerprint, self.limit, self.width = fingerprint, limit, width
        self.path = path or _usual_place()
        self._lock = threading.Lock()
        self._fresh: dict[bytes, CachedPhoto] = {}
        self._asked: dict[bytes, int] = {}
        """Of photos that were not known, the generation in which they were asked for."""
        self._used: set[bytes] = set()
        self._database = self._open()
        self._first = self._generation() if self._database else 0

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
                row = self._database.execute(query, (self.fingerprint, photo)).fetchone()
                if row and (known := self._checked(row[0])):
                    self._used.add(photo)
                    return known
                self._asked[photo] = self._generation()
        return None

    def put(self, photos: Mapping[bytes, CachedPhoto]) -> None:
        """Remember photos by SHA-256."""
        with self._lock:
            self._fresh.update(photos)

    def flush(self) -> None:
        """Write what is new, note what was used, and drop the oldest over the limit.

        What was asked for before another process removed features may be of a photo that it removed: it is not written.
        """
        with self._lock, self._tolerated():
            if not self._database:
                return
            now = time.time_ns()
            with _transaction(self._database):
                generation = self._generation()
                fresh = {p: one for p, one in self._fresh.items() if self._asked.get(p, self._first) == generation}
                # SQLite does not notice a bit that flips on the disk: a checksum does.
                contents = {photo: look.to_bytes(8) + vector.tobytes() for photo, (vector, look) in fresh.items()}
                rows = [(self.fingerprint, p, now, c + zlib.crc32(c).to_bytes(4)) for p, c in contents.items()]
                used = [(now, self.fingerprint, photo) for photo in self._used]
                self._database.executemany("INSERT OR REPLACE INTO photos VALUES (?, ?, ?, ?)", rows)
                self._database.executemany("UPDATE photos SET used = ? WHERE encoder = ? AND photo = ?", used)
                if rows:
                    self._shrink()
            self._fresh, self._asked, self._used = {}, {}, set()

    def _checked(self, stored: object) -> CachedPhoto | None:
        """What `flush` wrote, if it is as it was written, of the right width, and made of numbers."""
        if not isinstance(stored, bytes) or len(stored) < 12 or len(stored) % 4:
            return None
        content, check = stored[:-4], stored[-4:]
        vector = np.frombuffer(content[8:], np.float32)
        if zlib.crc32(content).to_bytes(4) != check or self.width not in (None, len(vector)):
            return None
        return (vector, int.from_bytes(content[:8])) if np.isfinite(vector).all() else None

    def _generation(self) -> int:
        """How often features were removed from the file on purpose."""
        assert self._database
        return int(self._database.execute("PRAGMA user_version").fetchone()[0])

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
            try:
                make_cache_folder(self.path.parent)
                return _connected(self.path, timeout=10)
            except OSError:
                return None
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    return None  # no place to write, or another process holds it for long
                with contextlib.suppress(OSError):
                    _remove_database(self.path)
        return None

    @contextlib.contextmanager
    def _tolerated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if self._database and not isinstance(error, sqlite3.OperationalError):
                self._database.close()
                with contextlib.suppress(OSError):
                    _remove_database(self.path)
            self._database = None


def discard_features(keys: Keys, path: Path | None = None, patience: float = PATIENCE) -> None:
    """Remove photos, known by the first eight bytes of their SHA-256 as numbers, under every encoder, from the disk.

    A `UserError` says what is left where that is not possible, because another process does not let go of the file.
    """
    path = path or _usual_place()
    if not path.exists():
        return
    prefixes = [int(key).to_bytes(8, "big") for key in keys]
    ranges = [(prefix, prefix + b"\xff" * 32) for prefix in prefixes]
    until = time.monotonic() + patience
    left = "features of these photos may still be"
    try:
        with contextlib.closing(_connected(path, timeout=patience)) as database:
            query = "SELECT COUNT(*) FROM photos WHERE photo BETWEEN ? AND ?"
            count = sum(database.execute(query, one).fetchone()[0] for one in ranges)
            left = f"{counted(count, 'feature vector')} of these photos {'is' if count == 1 else 'are'} still"
            database.execute("PRAGMA secure_delete = ON")
            with _transaction(database):
                database.executemany("DELETE FROM photos WHERE photo BETWEEN ? AND ?", ranges)
                (generation,) = database.execute("PRAGMA user_version").fetchone()
                database.execute(f"PRAGMA user_version = {(generation + 1) % 2**31}")
            # What was deleted is in the file and in its log until nobody reads an older state of them.
            while database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > until:
                    raise sqlite3.OperationalError("another process is reading it")
                time.sleep(0.05)
    except sqlite3.OperationalError as error:
        raise UserError(
            f"nothing was forgotten, because {left} in {path} ({error}): "
            "end what else is at work with photos, and give the command again"
        ) from None
    except sqlite3.DatabaseError:
        _remove_database(path)  # damaged: without it, nothing is left


def _usual_place() -> Path:
    return cache_folder() / "features.sqlite"


def _connected(path: Path, timeout: float) -> sqlite3.Connection:
    """The file, made if it is missing; `sqlite3.DatabaseError` where it is damaged or has other tables."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NONBLOCK", 0), 0o600))
    database = sqlite3.connect(path, timeout=timeout, check_same_thread=False)
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"CREATE TABLE IF NOT EXISTS photos {_COLUMNS}")
        database.execute("DROP TABLE IF EXISTS features")  # of before photos had a look
        found = database.execute("SELECT sql FROM sqlite_master").fetchall()
        if [" ".join(str(sql).split()) for (sql,) in found] != [f"CREATE TABLE photos {_COLUMNS}"]:
            raise sqlite3.DatabaseError("other tables")
    except BaseException:
        database.close()
        raise
    return database


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; other processes that write are waited for at its start, and never in its middle."""
    database.execute("BEGIN IMMEDIATE")
    with database:
        yield


def _remove_database(path: Path) -> None:
    for one in (path, *path.parent.glob(f"{path.name}-*")):
        one.unlink(missing_ok=True)
