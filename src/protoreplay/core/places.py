"""Where files of this user are kept."""

import os
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """Of the datasets: `PROTOREPLAY_DATA` if it is set, in the cache folder of this user otherwise."""
    return _chosen("PROTOREPLAY_DATA") or platformdirs.user_cache_path("protoreplay") / "data"


def cache_folder() -> Path:
    """Of converted encoders and features: `PROTOREPLAY_CACHE` if it is set, the cache folder of this user otherwise."""
    return _chosen("PROTOREPLAY_CACHE") or platformdirs.user_cache_path("protoreplay")


def _chosen(variable: str) -> Path | None:
    text = os.environ.get(variable)
    return Path(text).expanduser().absolute() if text else None
