"""Photos inside zip files, read one by one into memory: nothing is ever extracted to a path.

A zip file is refused as a whole if it has a member whose path leads out of it, a link, an encrypted one, one that
claims more than a photo can have, or more members than people pack; only `stored` and `deflated` members are read.
"""

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from zipfile import ZipInfo

from protoreplay.core.errors import UserError
from protoreplay.data.zip_reader import ZipReader

LARGEST_MEMBER = 256 * 2**20
PACKED = "a zip file, passed over: unpack it first"
"""What is said of one where only files will do."""
PASSED_OVER = ("__macosx", "thumbs.db", "desktop.ini")
"""What systems put beside photos, in lower case; hidden files are passed over, too."""


class ZippedFile:
    """An open zip file, for many threads.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = ZipReader(path, LARGEST_MEMBER)

    def photos(self) -> "list[ZippedPhoto]":
        """All files in it but what systems put there, in the order of their names; a `UserError` for a harmful one."""
        members = [(PurePosixPath(name), member) for name, member in self._reader.members()]
        return [
            ZippedPhoto(self.path, name, member, self)
            for name, member in sorted(members, key=lambda one: str(one[0]))
            if not any(part.startswith(".") or part.lower() in PASSED_OVER for part in name.parts)
        ]

    def read(self, member: ZipInfo) -> bytes:
        """The bytes of a member; a `UserError` if they are damaged or not as many as was said."""
        return self._reader.read(member)


@dataclass(frozen=True)
class ZippedPhoto:
    """A photo in a zip file.

    Attributes:
        archive: the zip file.
        name: the photo's path inside it.
        member: what the zip file says of it.
        file: what reads it.
    """

    archive: Path
    name: PurePosixPath
    member: ZipInfo = field(repr=False, compare=False)
    file: ZippedFile = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.archive}/{self.name}"

    def read_bytes(self) -> bytes:
        """Its content; a `UserError` if it is damaged."""
        return self.file.read(self.member)


def is_zip(path: Path) -> bool:
    """Whether a path is that of a zip file, by its name."""
    return path.suffix.lower() == ".zip" and path.is_file()


def zipped_photos(path: Path) -> list[ZippedPhoto]:
    """All photos of a zip file."""
    found = ZippedFile(path).photos()
    if not found:
        raise UserError(f"{path} has no photos")
    return found


def zip_problem(path: Path) -> str:
    """Why the photos of a zip file cannot be had, in a line that follows its name."""
    try:
        zipped_photos(path)
    except UserError as error:
        return str(error).removeprefix(f"{path} ").removeprefix("is ")
    return PACKED


def zipped_by_class(path: Path, name: str | None = None) -> dict[str, list[ZippedPhoto]]:
    """Photos by class: of the folders in a zip file, or, with a `name`, all of them.

    One folder around everything, as many programs pack it, is no class.
    """
    photos = zipped_photos(path)
    if name is not None:
        return {name: photos}
    depth = 0
    if len({photo.name.parts[0] for photo in photos}) == 1 and all(len(photo.name.parts) > 2 for photo in photos):
        depth = 1
    found: dict[str, list[ZippedPhoto]] = {}
    for photo in photos:
        if len(photo.name.parts) > depth + 1:
            found.setdefault(photo.name.parts[depth], []).append(photo)
    if not found:
        raise UserError(
            f"{path} has no folders: put the photos of each class into one of its own, "
            "or give the name of the only class with --class"
        )
    return found
