"""Lists of the training images of each session, as benchmarks publish them.

A folder with `session_1.txt`, `session_2.txt` and so on, or one file with a blank line between sessions. A line is the
index of an image in the training set, from 0, or the path of an image, of which the last part counts. A folder may also
have a `test.txt` of test images, as paths. In one file without a blank line are the shots of classes that come as the
protocol says.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.data.images import Dataset

LARGEST_LIST = 16 * 2**20
"""Bytes that a list may have: the longest public one has 2 million."""


@dataclass(frozen=True)
class ListedImages:
    """What a list says, as indices into all images of the dataset, training images first.

    Attributes:
        sessions: the images of each session.
        test: the test images; none where the list names none.
        has_sessions: whether the list says which classes come together; otherwise there is one session.
    """

    sessions: tuple[Tensor, ...]
    test: Tensor | None
    has_sessions: bool


@dataclass(frozen=True)
class _Line:
    """Where it stands, and what it says."""

    place: str
    text: str


def list_digest(path: Path) -> str:
    """The SHA-256 of the files of a list, one after the other."""
    return hashlib.sha256(b"\0".join(_list_bytes(file) for file in _files(path))).hexdigest()


def read_shot_list(path: Path, dataset: Dataset) -> ListedImages:
    """The list at `path`; what is wrong with it is a `UserError` that names file and line."""
    files = _files(path)
    names = _Names(dataset)
    listed = path / "test.txt"
    blocks = [_said_lines(file) for file in files if file != listed] if path.is_dir() else _blocks(path)
    seen: dict[int, str] = {}
    sessions = tuple(torch.tensor(names.indices(block, seen)) for block in blocks)
    test = torch.tensor(names.indices(_said_lines(listed), seen)) if listed in files else None
    _check_classes(sessions, dataset, path)
    return ListedImages(sessions, test, path.is_dir() or len(sessions) > 1)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.is_file():
            raise UserError(f"shot_list={path}: no such file or folder")
        return [path]
    numbered = {
        int(match[1]): file
        for file in path.glob("session_*.txt")
        if (match := re.match(r"session_(\d+)\.txt$", file.name))
    }
    if not numbered:
        raise UserError(f"shot_list={path}: the folder has no session_1.txt, session_2.txt, ...")
    first = min(numbered)
    if gap := next((n for n in range(first, max(numbered)) if n not in numbered), None):
        raise UserError(f"shot_list={path}: session_{gap}.txt is missing")
    test = [path / "test.txt"] if (path / "test.txt").is_file() else []
    return [numbered[number] for number in sorted(numbered)] + test


def _list_bytes(file: Path) -> bytes:
    try:
        if file.stat().st_size > LARGEST_LIST:
            raise UserError(f"{file} is refused: it is larger than {LARGEST_LIST // 2**20} MiB")
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror or error}") from None


def _list_lines(file: Path) -> list[_Line]:
    try:
        text = _list_bytes(file).decode()
    except UnicodeDecodeError:
        raise UserError(f"{file} is not a text file") from None
    return [_Line(f"{file}, line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]


def _said_lines(file: Path) -> list[_Line]:
    """All lines that say something."""
    found = [line for line in _list_lines(file) if line.text]
    if not found:
        raise UserError(f"{file} is empty: give one image per line, by index or by path")
    return found


def _blocks(file: Path) -> list[list[_Line]]:
    """The lines between blank ones."""
    _said_lines(file)
    blocks: list[list[_Line]] = [[]]
    for line in _list_lines(file):
        if line.text:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


class _Names:
    """Finds the images that lines name."""

    def __init__(self, dataset: Dataset) -> None:
        self._data, self._count = dataset.name, len(dataset.train)
        self._files = dataset.files
        self._by_name: Mapping[str, int] | None = None

    def indices(self, lines: list[_Line], seen: dict[int, str]) -> list[int]:
        """Of all images; `seen` are those named before, and where."""
        found = []
        for line in lines:
            index = self._index(line)
            if index in seen:
                raise UserError(f"{line.place}: {line.text} is listed already, in {seen[index]}")
            seen[index] = line.place
            found.append(index)
        return found

    def _index(self, line: _Line) -> int:
        if line.text.isascii() and line.text.isdigit():
            if int(line.text) >= self._count:
                raise UserError(f"{line.place}: {line.text} is not a training image: {self._data} has {self._count}")
            return int(line.text)
        if self._files is None:
            raise UserError(
                f"{line.place}: '{line.text}' is not an index, and {self._data} has no file names: "
                "import the data again, or give indices"
            )
        if self._by_name is None:
            self._by_name = {name: index for index, name in enumerate(self._files())}
        name = PurePosixPath(line.text.replace("\\", "/")).name
        if name not in self._by_name:
            raise UserError(f"{line.place}: {name} is not among the images of this copy of {self._data}")
        return self._by_name[name]


def _check_classes(sessions: tuple[Tensor, ...], dataset: Dataset, path: Path) -> None:
    labels = torch.cat([dataset.train.labels, dataset.test.labels])
    before: dict[int, int] = {}
    for number, session in enumerate(sessions, start=1):
        for label in labels[session].unique().tolist():
            if label in before:
                called = dataset.train.class_names[label]
                raise UserError(f"shot_list={path}: class '{called}' is in two sessions, {before[label]} and {number}")
            before[label] = number
