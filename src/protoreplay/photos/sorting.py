"""Photos into a folder for each answer: what goes where. How it is done and taken back is in `sort_log`."""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from protoreplay.core.errors import UserError
from protoreplay.photos import xmp
from protoreplay.photos.answers import Answer
from protoreplay.photos.photo_paths import files_and_zips
from protoreplay.photos.sort_log import FileStep, SortLog, file_digest, open_sort_log

SortAction = Literal["copy", "move", "link"]

UNKNOWN, UNSURE = "unknown", "unsure"
"""The folders of photos that show none of the classes, and of those that might show several."""
LEAST_SURE = 0.5
"""Probability below which an answer is unsure: it is more likely wrong than right."""
PORTION = 32
"""Photos between two marks in the log."""
LONGEST_FILE_NAME = 255
"""In bytes, on all common file systems."""


@dataclass(frozen=True)
class SortedPhoto:
    """What became of one photo.

    Attributes:
        photo: where it was.
        to: where it is now, or a copy or a link; None where it was left alone.
        label: the name of its folder.
        note: why it was left alone, or what else there is to say.
        again: it was sorted before.
    """

    photo: str
    to: Path | None = None
    label: str = ""
    note: str = ""
    again: bool = False


def photos_to_sort(paths: Iterable[Path], folder: Path) -> tuple[list[Path], list[Path]]:
    """Photos in and below `paths`, each once, neither sidecars nor what is sorted already; and apart, zip files."""
    done = folder.resolve()
    files, zips = files_and_zips(paths)
    return [photo for photo in xmp.without_sidecars(files) if done not in photo.resolve().parents], zips


def sort_photos(
    answers: Iterable[Answer],
    classes: Iterable[str],
    folder: Path,
    action: SortAction = "copy",
    unsure: float = LEAST_SURE,
    write_xmp: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[SortedPhoto]:
    """Put each photo into a folder named as its answer, below `folder`; killed at any moment, the same call goes on.

    Args:
        answers: to photos that are files.
        classes: all names that answers may have.
        folder: made if it is missing.
        action: a copy, the photo itself, or a symbolic link to it. Sidecars go with their photo.
        unsure: probability below which a photo goes to the folder of the unsure ones.
        write_xmp: also put the class into the photo's sidecar, as a keyword.
        say: hears of another process that sorts into the same folder.
    """
    names = class_folders(classes)
    remaining = iter(answers)
    first = list(itertools.islice(remaining, PORTION))
    with open_sort_log(folder, say) as log:
        while first:
            plan = _SortPlan(log, names, action, unsure, write_xmp)
            planned = [plan.add(answer) for answer in first]
            problems = iter(log.carry_out(plan.groups))
            for photo in planned:
                if photo.to is None or photo.again:
                    yield photo
                else:
                    yield _with_problem(photo, next(problems))
            first = list(itertools.islice(remaining, PORTION))


def _with_problem(photo: SortedPhoto, problem: str) -> SortedPhoto:
    if not problem:
        return photo
    if photo.to and os.path.lexists(photo.to):  # its sidecar alone had the problem
        return replace(photo, note=problem)
    return SortedPhoto(photo.photo, note=f"not sorted: {problem}")


def plan_sort(
    answers: Iterable[Answer],
    classes: Iterable[str],
    folder: Path,
    action: SortAction = "copy",
    unsure: float = LEAST_SURE,
) -> Iterator[SortedPhoto]:
    """What `sort_photos` would do, without touching anything."""
    plan = _SortPlan(SortLog(folder, settle=False), class_folders(classes), action, unsure, write_xmp=False)
    return (plan.add(answer) for answer in answers)


def undo_sort(folder: Path, say: Callable[[str], None] = lambda line: None) -> tuple[int, list[str]]:
    """Take back all that was sorted into a folder: how many files, and of each that could not be, why."""
    with open_sort_log(folder, say, create=False) as log:
        count = len(log.finished)
        problems = log.undo()
        return count - len(problems), problems


def class_folders(classes: Iterable[str]) -> dict[str, str]:
    """A folder's name for each class: the same where it can be one, and none twice."""
    names: dict[str, str] = {}
    taken = {UNKNOWN, UNSURE}
    for label in sorted(classes):
        plain = "".join("_" if sign in '/\\:*?"<>|' else sign for sign in label)
        plain = _shortened("_" + plain[1:] if plain.startswith(".") else plain, 200)
        tries = itertools.chain([plain, f"{plain} (class)"], (f"{plain} ({n})" for n in itertools.count(2)))
        names[label] = next(name for name in tries if name.casefold() not in taken)
        taken.add(names[label].casefold())
    return names


class _SortPlan:
    """Steps for some photos; places that earlier ones take are not given again."""

    def __init__(self, log: SortLog, names: dict[str, str], action: SortAction, unsure: float, write_xmp: bool) -> None:
        self.log, self.names, self.action, self.unsure, self.write_xmp = log, names, action, unsure, write_xmp
        self.groups: list[list[FileStep]] = []
        self._before = log.finished
        self._taken: set[Path] = set()
        self._moved: set[Path] = set()
        self._folders: set[str] = set()

    def add(self, answer: Answer) -> SortedPhoto:
        """Plan for one photo, and say what it will be."""
        photo = Path(answer.photo)
        if answer.error:
            return SortedPhoto(answer.photo, note=answer.error)
        if self.action == "move" and photo.is_symlink():
            return SortedPhoto(answer.photo, note="a link, which is not moved: left where it is")
        best = answer.choices[0]
        label = self.names[best.label] if best.probability >= self.unsure else UNSURE
        label = UNKNOWN if answer.label is None else label
        source = photo.absolute()
        if known := self._sorted_before(source):
            return SortedPhoto(answer.photo, known, known.parent.name, again=True)
        try:
            return self._plan(answer, source, label)
        except OSError as error:
            return SortedPhoto(answer.photo, note=f"not sorted: {error.strerror or error}")

    def _plan(self, answer: Answer, source: Path, label: str) -> SortedPhoto:
        sidecars = [one for one in xmp.sidecars_of(source) if one not in self._moved]
        made = self._free_place(source, self.log.folder / label, sidecars)
        steps = [self._step(self.action, source, made)]
        # A sidecar that is linked would be changed where it is.
        carried: SortAction = "copy" if self.action == "link" else self.action
        places = {place: _sidecar_place(place, source, made) for place in sidecars}
        steps += [self._step(carried, place, to) for place, to in places.items()]
        note = ""
        if self.write_xmp and answer.label is not None and label != UNSURE:
            try:
                steps += self._keyword(answer.label, sidecars, places, made)
            except UserError as error:
                note = f"{sidecars[0]}: {error}"
        if not (self.log.folder / label).is_dir() and label not in self._folders:
            self._folders.add(label)
            steps.insert(0, FileStep("folder", label))
        self._taken |= {made, *places.values()}
        self._moved |= set(places) if self.action == "move" else set()
        self.groups.append(steps)
        return SortedPhoto(answer.photo, made, label, note)

    def _sorted_before(self, source: Path) -> Path | None:
        step = self._before.get(str(source))
        if step is None or step.action == "move":
            return None
        made = self.log.folder / step.to
        if not os.path.lexists(made) or (step.action == "copy" and file_digest(source) != step.digest):
            return None
        return made

    def _free_place(self, source: Path, place: Path, sidecars: Sequence[Path]) -> Path:
        """The photo's name, or one with a number: nothing is overwritten."""
        for number in itertools.count(1):
            added = (f"-{number}" if number > 1 else "") + source.suffix
            # Room for the suffix of a sidecar.
            stem = _shortened(source.stem, LONGEST_FILE_NAME - len(xmp.SUFFIX) - len(os.fsencode(added)))
            made = place / (stem + added)
            wanted = [made, *(_sidecar_place(one, source, made) for one in sidecars)]
            wanted += [made.with_name(made.name + xmp.SUFFIX)] if self.write_xmp else []
            if not any(one in self._taken or os.path.lexists(one) for one in wanted):
                return made
        raise AssertionError("numbers do not end")

    def _step(self, action: SortAction, source: Path, made: Path) -> FileStep:
        digest = file_digest(source) if action == "copy" else ""
        return FileStep(action, str(made.relative_to(self.log.folder)), str(source), digest)

    def _keyword(
        self, label: str, sidecars: Sequence[Path], places: dict[Path, Path], made: Path
    ) -> Iterator[FileStep]:
        existing = sidecars[0].read_bytes() if sidecars else None
        content = xmp.keyword_added(existing, label)
        to = places[sidecars[0]] if sidecars else xmp.sidecar_for(made)
        self._taken.add(to)
        if content != existing:
            before = existing.decode() if existing is not None else None
            digest = hashlib.sha256(content).hexdigest()
            yield FileStep("write", str(to.relative_to(self.log.folder)), "", digest, before, content)


def _sidecar_place(sidecar: Path, source: Path, made: Path) -> Path:
    """Beside the photo's new place, with its new name."""
    return made.with_name(made.name + sidecar.suffix if sidecar.stem == source.name else made.stem + sidecar.suffix)


def _shortened(name: str, most: int) -> str:
    """To so many bytes, at the end of a character."""
    content = os.fsencode(name)
    return name if len(content) <= most else content[:most].decode(errors="ignore")
