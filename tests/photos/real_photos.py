"""Photos for tests of whole commands: generated ones, or your own."""

import os
import shutil
from pathlib import Path

from tests.photos import fakes

FOLDER = os.environ.get("PROTOREPLAY_REAL_PHOTOS")
"""A folder with a sub-folder of photos per class, to be used instead of generated ones; they are copied."""


def sub_folders(folder: Path, count: int) -> Path:
    """A new folder of so many photos, spread over a sub-folder per class."""
    if FOLDER is None:
        fakes.photos(folder, -(-count // 3))
    else:
        sources = [sorted(photo for photo in place.iterdir()) for place in sorted(Path(FOLDER).iterdir())]
        for number in range(-(-count // len(sources))):
            for photos in sources:
                if number < len(photos):
                    made = folder / photos[number].parent.name / photos[number].name
                    made.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(photos[number], made)
    for photo in sorted(folder.glob("*/*"))[count:]:
        photo.unlink()
    return folder


def encoder_for(tiny: str) -> str:
    """The encoder that suits them."""
    return tiny if FOLDER is None else "lite0"
