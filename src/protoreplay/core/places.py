"""Where files of this user are kept."""

import contextlib
import os
from pathlib import Path

import platformdirs

from protoreplay.core.files import make_private_folder


def data_folder() -> Path:
    """Of the datasets: `PROTOREPLAY_DATA` if it is set, in the cache folder of this user otherwise."""
    return _chosen("PROTOREPLAY_DATA") or platformdirs.user_cache_path("protoreplay") / "data"


def cache_folder() -> Path:
    """Of converted encoders and features: `PROTOREPLAY_CACHE` if it is set, the cache folder of this user otherwise."""
    return _chosen("PROTOREPLAY_CACHE") or platformdirs.user_cache_path("protoreplay")


def make_cache_folder(folder: Path) -> None:
    """Make a folder in the cache for this user alone; the cache in its usual place becomes private if it is not."""
    make_private_folder(folder)
    usual = platformdirs.user_cache_path("protoreplay")
    if usual in (folder, *folder.parents) and usual.stat().st_mode & 0o077:
        with contextlib.suppress(OSError):  # of another user
            usual.chmod(0o700)


def _chosen(variable: str) -> Path | None:
    text = os.environ.get(variable)
    return Path(text).expanduser().absolute() if text else None
