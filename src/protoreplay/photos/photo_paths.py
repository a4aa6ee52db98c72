"""Which photos are meant: folders of classes to learn, files and folders to ask about.

Of folders, everything below them is taken. What systems leave lying around is passed over without a word; a link to a
folder is followed once, after what really lies there, and never upwards.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from protoreplay.core.errors import UserError
from protoreplay.core.files import visible_entries
from protoreplay.core.words import counted
from protoreplay.photos import label_table, zipped_photos
from protoreplay.photos.xmp import is_sidecar

LEFT_LYING = {"__macosx", "thumbs.db", "desktop.ini"}
"""Names, in small letters, of what no person has put there; hidden files are passed over, too."""
MOST_NAMED = 5
"""Files that are named one by one in a line."""


def photos_by_class(
    folder: Path, name: str | None = None, say: Callable[[str], None] = lambda line: None, remedy: str = ""
) -> Mapping[str, Sequence[Path | zipped_photos.ZippedPhoto]]:
    """Photos by class: of the sub-folders and all below them, or, with a `name`, of the folder itself.

    A zip file is as good as a folder, also inside of one.

    Args:
        folder: of a sub-folder for each class.
        name: of the only class.
        say: hears what is not as a person may expect: folders without photos, photos in folders of folders.
        remedy: for a folder without sub-folders, what else the caller could be given.
    """
    if zipped_photos.is_zip(folder):
        return zipped_photos.zipped_by_class(folder, name)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: give one with a sub-folder of photos per class")
    entries = _photo_entries(folder)
    folders = [entry for entry in entries if entry.is_dir()]
    if name is None and not folders:
        raise UserError(f"{folder} has no sub-folders: put the photos of each class into one of its own{remedy}")
    visited = {folder.resolve()} if name is None else set()
    places = {name: folder} if name is not None else {entry.name: entry for entry in _links_last(folders)}
    found: dict[str, list[Path | zipped_photos.ZippedPhoto]] = {}
    for label, place in places.items():
        files = [] if name is None and _leads_upwards(place) else list(_walk(place, visited))
        photos = list(_unpacked(files))
        if photos:
            found[label] = photos
            if below := sum(not isinstance(photo, Path) or photo.parent != place for photo in photos):
                places_below = (
                    "folders" if all(isinstance(photo, Path) for photo in photos) else "folders and zip files"
                )
                say(f"{place}: {below} of {counted(len(photos), 'photo')} from {places_below} below it")
        elif name is None:
            say(f"{place} has no photos of its own: passed over")
    if name is None and (loose := [entry.name for entry in entries if not entry.is_dir()]):
        more = f" and {len(loose) - MOST_NAMED} more" if len(loose) > MOST_NAMED else ""
        say(f"{folder}: in no class's sub-folder, and passed over: {', '.join(loose[:MOST_NAMED])}{more}")
    if not found:
        raise UserError(f"{folder} has no photos: put some in")
    return {label: found[label] for label in sorted(found)}


def photos_to_learn(
    folder: Path | None, labels: Path | None = None, name: str | None = None, say: Callable[[str], None] = print
) -> Mapping[str, Sequence[Path | zipped_photos.ZippedPhoto]]:
    """Photos by class: of a folder or zip file, or of a table of paths and classes; `say` as of `photos_by_class`."""
    if labels is None:
        if folder is None:
            raise UserError("give a folder with a sub-folder of photos per class, or --labels FILE.csv")
        return photos_by_class(folder, name, say, ", or give the name of the only class with --class")
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
    visited: set[Path] = set()
    for path in paths:
        yield from _unpacked(_walk(path, visited) if _is_folder(path) else [path])


def files_and_zips(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """As of `walk_photos` the files, and apart from them the zip files, for who can do nothing with photos in these."""
    visited: set[Path] = set()
    found: tuple[list[Path], list[Path]] = ([], [])
    for path in paths:
        for file in _walk(path, visited) if _is_folder(path) else [path]:
            found[zipped_photos.is_zip(file)].append(file)
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long for one, which is named when it is read
        return False


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


def _unpacked(files: Iterable[Path]) -> Iterator[Path | zipped_photos.ZippedPhoto]:
    """Photos of zip files in the place of these; one that cannot be opened stays, and is named when it is read."""
    for file in files:
        try:
            yield from zipped_photos.zipped_photos(file) if zipped_photos.is_zip(file) else [file]
        except (UserError, OSError):
            yield file


def _lines(file: Iterable[str]) -> Iterator[Path]:
    return (Path(line.rstrip("\r\n")) for line in file if line.strip())


def _walk(folder: Path, visited: set[Path]) -> Iterator[Path]:
    """The files below a folder, but for folders that were visited before; links to folders come last."""
    links: list[Path] = []
    yield from _walk_real(folder, visited, links)
    while links:
        link = links.pop(0)
        if not _leads_upwards(link):
            yield from _walk_real(link, visited, links)


def _leads_upwards(entry: Path) -> bool:
    """Whether it is a link to a folder that it lies in, which would bring in what nobody has asked for."""
    return entry.is_symlink() and entry.resolve() in (entry.parent.resolve(), *entry.parent.resolve().parents)


def _walk_real(folder: Path, visited: set[Path], links: list[Path]) -> Iterator[Path]:
    real = folder.resolve()
    if real in visited:
        return
    visited.add(real)
    try:
        entries = _photo_entries(folder)
    except OSError:
        yield folder  # which is named as one that cannot be read
        return
    for entry in entries:
        if not entry.is_dir():
            yield entry
        elif entry.is_symlink():
            links.append(entry)
        else:
            yield from _walk_real(entry, visited, links)


def _photo_entries(folder: Path) -> list[Path]:
    """What a person has put there: neither hidden, nor left lying by a system, nor an empty file."""
    seen = (entry for entry in visible_entries(folder) if entry.name.lower() not in LEFT_LYING)
    return [entry for entry in seen if not is_sidecar(entry) and not (entry.is_file() and entry.stat().st_size == 0)]


def _links_last(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=lambda entry: (entry.is_symlink(), entry.name))
