"""Files that are written whole or not at all, and what a folder shows."""

import os
from collections.abc import Iterable
from pathlib import Path

from protoreplay.core.errors import UserError


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file by `content`, so that a reader, or a kill at any moment, finds the old or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        move_into_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def move_into_place(temporary: Path, path: Path) -> None:
    """Replace `path` by a finished file of the same disk, which is safely on that disk first."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def check_output(path: Path, inputs: Iterable[Path] = (), force: bool = False) -> None:
    """A `UserError` if writing there would replace an input, or, without `force`, anything at all."""
    if any(path.exists() and one.exists() and path.samefile(one) for one in inputs):
        raise UserError(f"{path} is an input of this command and would be overwritten: give another name")
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file")
    if path.exists() and not force:
        raise UserError(f"{path} already exists: give another name, or --force to replace it")


def visible_entries(folder: Path) -> list[Path]:
    """The files and folders in a folder that are not hidden, in the order of their names."""
    return sorted((entry for entry in folder.iterdir() if not entry.name.startswith(".")), key=lambda e: e.name)
