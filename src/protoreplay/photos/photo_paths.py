"""Which photos are meant: folders of classes to learn, files and folders to ask about."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from protoreplay.core.errors import UserError
from protoreplay.core.files import visible_entries
from protoreplay.photos import label_table, zipped_photos
from protoreplay.photos.xmp import is_sidecar


def photos_by_class(
    folder: Path, name: str | None = None
) -> dict[str, list[Path]] | dict[str, list[zipped_photos.ZippedPhoto]]:
    """Photos by class: of the sub-folders, or, with a `name`, of the folder itself. Hidden files are passed over.

    A zip file is as good as a folder.
    """
    if zipped_photos.is_zip(folder):
        return zipped_photos.zipped_by_class(folder, name)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: give one with a sub-folder of photos per class")
    if name is not None:
        return {name: _filled(folder)}
    folders = [entry for entry in visible_entries(folder) if entry.is_dir()]
    if not folders:
        raise UserError(
            f"{folder} has no sub-folders: put the photos of each class into one of its own, "
            "or give the name of the only class with --class"
        )
    return {entry.name: _filled(entry) for entry in folders}


def photos_to_learn(
    folder: Path | None, labels: Path | None = None, name: str | None = None
) -> Mapping[str, Sequence[Path | zipped_photos.ZippedPhoto]]:
    """Photos by class: of a folder or zip file, or of a table of paths and classes."""
    if labels is None:
        if folder is None:
            raise UserError("give a folder with a sub-folder of photos per class, or --labels FILE.csv")
        return photos_by_class(folder, name)
    if name is not None:
        raise UserError("--labels has the classes: leave out --class")
    return label_table.photos_by_label(labels, folder)


def only_files(photos: Iterable[Path | zipped_photos.ZippedPhoto]) -> list[Path]:
    """All of them; a `UserError` for one in a zip file, which other processes would not find."""
    files: list[Path] = []
    for photo in photos:
        if not isinstance(photo, Path):
            raise UserError(f"{photo.archive} is a zip file, and this needs photos in folders: unpack it first")
        files.append(photo)
    return files


def walk_photos(paths: Iterable[Path]) -> Iterator[Path | zipped_photos.ZippedPhoto]:
    """Files as they are given; of folders, all files in them and below, in the order of names; so of zip files."""
    for path in paths:
        if path.is_dir():
            yield from walk_photos(entry for entry in visible_entries(path) if not is_sidecar(entry))
        elif zipped_photos.is_zip(path):
            yield from zipped_photos.zipped_photos(path)
        else:
            yield path


def paths_in_list(path: Path) -> Iterator[Path]:
    """The paths in a file, one a line; of `-`, on standard input. Empty lines are passed over."""
    if str(path) == "-":
        yield from _lines(sys.stdin)
        return
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            yield from _lines(file)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file with one path a line") from None


def _lines(file: Iterable[str]) -> Iterator[Path]:
    return (Path(line.rstrip("\r\n")) for line in file if line.strip())


def _filled(folder: Path) -> list[Path]:
    files = [entry for entry in visible_entries(folder) if not entry.is_dir() and not is_sidecar(entry)]
    if not files:
        raise UserError(f"{folder} has no photos: put some in or remove it")
    return files
