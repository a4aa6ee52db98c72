"""Moves, copies and links of files that are written down before they are done, so that they can be taken back.

A portion of steps is in the log, safely on disk, before its first step is done, and a mark follows its last one.
Whoever opens the log after a kill looks at the steps behind the last mark: one that was finished stays, one that was
not is rolled back. No step overwrites a file: its place is reserved first, and fails to be where a file is already.
"""

import contextlib
import errno
import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from protoreplay.core.checked_json import plain_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular, sync_folder
from protoreplay.core.locks import held_lock

MOST_BYTES = 2**31
"""Of a log: millions of photos."""

LOG, LOCK = ".sort-log.jsonl", ".sort-log.lock"

StepAction = Literal["folder", "move", "copy", "link", "write"]


@dataclass(frozen=True)
class FileStep:
    """One thing that is done to one file.

    Attributes:
        action: what.
        to: the file or folder that comes into being, below the folder of the log.
        source: the absolute path it comes from, of `move`, `copy` and `link`.
        digest: the SHA-256 of what `copy` and `write` leave.
        before: the text that a file had before `write`; None where there was no file.
        content: what `write` writes; it is not in the log.
    """

    action: StepAction
    to: str
    source: str = ""
    digest: str = ""
    before: str | None = None
    content: bytes = field(default=b"", repr=False, compare=False)


OWN_FOLDER = FileStep("folder", ".")
"""The folder of the log itself, which goes last."""


class SortLog:
    """The log of a folder. One process at a time: see `open_sort_log`.

    Args:
        folder: in which everything comes into being.
        settle: what a killed process has begun is put in order.
    """

    def __init__(self, folder: Path, settle: bool = True) -> None:
        self.folder, self.path = folder, folder / LOG
        self.steps: list[FileStep] = []
        self.void: set[int] = set()
        self.is_taken_back = False
        self._marked = 0
        self._finished: dict[str, FileStep] | None = None
        try:
            for line in read_regular(self.path, MOST_BYTES).splitlines() if self.path.exists() else ():
                self._take(line)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.path} is damaged ({type(error).__name__}: {error}): nothing was touched") from None
        if settle:
            self._settle()

    @property
    def finished(self) -> Mapping[str, FileStep]:
        """The steps that were done and not taken back, by their source."""
        if self._finished is None:
            self._finished = {step.source: step for _, step in self._standing() if step.source}
        return self._finished

    def note_own_folder(self) -> None:
        """Write down that the folder itself was made for this log."""
        self.steps.append(OWN_FOLDER)
        self._append({"step": len(self.steps) - 1, **_logged(OWN_FOLDER)})
        self._mark(len(self.steps))

    def carry_out(self, groups: Sequence[Sequence[FileStep]]) -> list[str]:
        """Do groups of steps; of each, why it was not done to its end, or nothing. The first failure ends a group."""
        first = len(self.steps)
        for group in groups:
            self.steps += group
        self._append(*({"step": i, **_logged(self.steps[i])} for i in range(first, len(self.steps))))
        problems, number = [], first
        for group in groups:
            problem = ""
            for step in group:
                try:
                    if problem:
                        self.void.add(number)
                    else:
                        self._do(number, step)
                        if self._finished is not None and step.source:
                            self._finished[step.source] = step
                except OSError as error:
                    problem = f"{error.strerror or error} ({step.to})"
                    self.void.add(number)
                number += 1
            problems.append(problem)
        self._mark(first)
        return problems

    def undo(self) -> list[str]:
        """Take everything back, the last first; what could not be, in one line each, stays in the log."""
        problems = []
        for number, step in reversed(list(self._standing())):
            try:
                problem = self._undo(number, step)
            except OSError as error:
                problem = f"{error.strerror or error}: left where it is"
            if problem:
                problems.append(f"{self.folder / step.to}: {problem}")
            elif step.action != "folder" or not (self.folder / step.to).is_dir():
                self.void.add(number)
        self.is_taken_back = not problems
        if problems:
            self._mark(0)
        return problems

    def _standing(self) -> Iterator[tuple[int, FileStep]]:
        return ((number, step) for number, step in enumerate(self.steps) if number not in self.void)

    def _take(self, line: bytes) -> None:
        try:
            entry = plain_json(line)
        except ValueError:
            return  # the last line of a process that was killed while it wrote: none of its steps was done
        if "step" in entry:
            number, step = entry.pop("step"), _checked_step(entry)
            if not 0 <= number <= len(self.steps):
                raise ValueError("the number of a step")
            del self.steps[number:]
            self.steps.append(step)
        else:
            if not all(type(number) is int and number >= 0 for number in (*entry["void"], entry["done"])):
                raise ValueError("the number of a step")
            self.void |= set(entry["void"])
            self._marked = entry["done"]

    def _append(self, *entries: dict[str, object]) -> None:
        with self.path.open("ab") as file:
            if file.tell():
                file.write(b"\n")  # ends a line that was cut off
            file.write("\n".join(json.dumps(entry) for entry in entries).encode())
            file.flush()
            os.fsync(file.fileno())

    def _mark(self, since: int) -> None:
        """All steps so far are done, or void."""
        self._marked = len(self.steps)
        self._append({"done": self._marked, "void": sorted(n for n in self.void if n >= since)})

    def _settle(self) -> None:
        """What a killed process has begun is finished or rolled back."""
        since = self._marked
        if since < len(self.steps):
            for number in range(since, len(self.steps)):
                if not self._settled(number, self.steps[number]):
                    self.void.add(number)
            self._mark(since)

    def _settled(self, number: int, step: FileStep) -> bool:
        """Whether the step was done; if not, its traces are gone."""
        self._temporary(number).unlink(missing_ok=True)
        made = self.folder / step.to
        if step.action == "folder":
            return made.is_dir()
        if step.action == "link":
            return _is_link_to(made, step.source)
        if not os.path.lexists(made):
            return False
        if step.action == "move":
            source = Path(step.source)
            if not os.path.lexists(source):
                return True
            if _is_empty(made) or filecmp.cmp(source, made, shallow=False):
                made.unlink()
            return False
        if file_digest(made) == step.digest:
            return True
        if step.before is None and _is_empty(made):
            made.unlink()
        return False

    def _do(self, number: int, step: FileStep) -> None:
        made, temporary = self.folder / step.to, self._temporary(number)
        if step.action == "folder":
            made.mkdir()
        elif step.action == "link":
            made.symlink_to(step.source)
        elif step.action == "move":
            _move(Path(step.source), made, temporary)
        else:
            try:
                _reserve(temporary)
                if step.action == "copy":
                    shutil.copy2(step.source, temporary)
                else:
                    temporary.write_bytes(step.content)
                _to_disk(temporary)
                if step.before is None:
                    _reserve(made)
                temporary.replace(made)
            finally:
                temporary.unlink(missing_ok=True)

    def _undo(self, number: int, step: FileStep) -> str:
        """Take one step back, again if need be; why not, or nothing."""
        made = self.folder / step.to
        if step.action == "folder":
            if step != OWN_FOLDER:
                with contextlib.suppress(OSError):  # of a folder with files of others
                    made.rmdir()
            return ""
        if step.action == "move":
            return _move_back(made, Path(step.source), number)
        if not os.path.lexists(made):
            return ""
        if step.action == "link":
            changed = not _is_link_to(made, step.source)
        else:
            found = file_digest(made)
            if step.before is not None and found == hashlib.sha256(step.before.encode()).hexdigest():
                return ""
            changed = found != step.digest
        if changed:
            return "it was changed since: left where it is"
        if step.before is None:
            made.unlink()
        else:
            temporary = self._temporary(number)
            temporary.unlink(missing_ok=True)
            _reserve(temporary)
            temporary.write_bytes(step.before.encode())
            _to_disk(temporary)
            temporary.replace(made)
        return ""

    def _temporary(self, number: int) -> Path:
        return self.folder / f".sorting-{number}"


@contextlib.contextmanager
def open_sort_log(folder: Path, say: Callable[[str], None], create: bool = True) -> Iterator[SortLog]:
    """The log of a folder, which is made if it is missing, held against other processes."""
    # The folder comes and goes in one moment together with the log that says whose it is.
    aside = folder.absolute().with_name(f".{folder.absolute().name}.sorting")
    _discard(aside)
    if not create and not (folder / LOG).is_file():
        raise UserError(f"{folder} has no log of a sort ({LOG}): there is nothing to take back")
    if not folder.is_dir():
        if not folder.parent.is_dir():
            raise UserError(f"{folder}: the folder {folder.parent} does not exist: make it first")
        aside.mkdir()
        SortLog(aside).note_own_folder()
        aside.rename(folder)
        sync_folder(folder.absolute().parent)
    with held_lock(folder / LOCK, say, f"another process is sorting into {folder}"):
        log = SortLog(folder)
        yield log
        if log.is_taken_back:
            if OWN_FOLDER in log.steps and {entry.name for entry in folder.iterdir()} <= {LOG, LOCK}:
                folder.rename(aside)
                _discard(aside)
            else:
                log.path.unlink()
                (folder / LOCK).unlink(missing_ok=True)


def _discard(aside: Path) -> None:
    """Remove a folder that has no files but the log's."""
    if aside.is_dir():
        for name in (LOG, LOCK):
            (aside / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # of a folder with files of others
            aside.rmdir()


def _checked_step(entry: dict[str, Any]) -> FileStep:
    """A step of the log; a `ValueError` for one that leads out of the folder, or is none at all."""
    step = FileStep(**entry)
    texts = (step.action, step.to, step.source, step.digest, step.before or "")
    # Not by pydantic: names of files may have bytes that are no text.
    if not all(isinstance(text, str) for text in texts) or step.action not in get_args(StepAction):
        raise ValueError("a step")
    if Path(step.to).is_absolute() or ".." in Path(step.to).parts:
        raise ValueError("a step out of the folder")
    if step.source and not Path(step.source).is_absolute():
        raise ValueError("a source that is no whole path")
    return step


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _logged(step: FileStep) -> dict[str, object]:
    entry = asdict(step)
    del entry["content"]
    return {key: value for key, value in entry.items() if value != ""}


def _move(source: Path, made: Path, temporary: Path) -> None:
    """A photo is at one of the two places at every moment, or, between two disks, for a moment at both."""
    _reserve(made)
    try:
        _replace(source, made, temporary)
    except OSError:
        if _is_empty(made):
            made.unlink()
        raise


def _replace(source: Path, made: Path, temporary: Path) -> None:
    try:
        source.replace(made)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        try:
            _reserve(temporary)
            shutil.copy2(source, temporary)
            _to_disk(temporary)
            temporary.replace(made)
        finally:
            temporary.unlink(missing_ok=True)
        source.unlink()


def _move_back(made: Path, source: Path, number: int) -> str:
    temporary = source.parent / f".sorting-{number}"
    temporary.unlink(missing_ok=True)
    if not os.path.lexists(made):
        return "" if os.path.lexists(source) else "it is gone"
    if os.path.lexists(source):
        if source.is_file() and not _is_empty(source) and filecmp.cmp(source, made, shallow=False):
            made.unlink()  # an undo between two disks was killed here
            return ""
        if not _is_empty(source):
            return f"{source} is another file: left where it is"
    else:
        source.parent.mkdir(parents=True, exist_ok=True)
        _reserve(source)
    _replace(made, source, temporary)
    return ""


def _reserve(path: Path) -> None:
    """An empty file in a place where there is none; an error where there is one."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def _is_empty(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size == 0


def _is_link_to(path: Path, target: str) -> bool:
    return path.is_symlink() and str(path.readlink()) == target


def _to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
