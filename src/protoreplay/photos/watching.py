"""Photos are answered as they arrive in a folder or from a camera, each once, also after a kill.

A photo is taken when it is completely written: its file has not changed between two looks, and it can be read; one that
cannot be read gets some seconds more. What was answered is on disk before the next photo's turn comes.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from protoreplay.core.checked_json import plain_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular
from protoreplay.core.places import cache_folder, make_cache_folder
from protoreplay.photos import cameras
from protoreplay.photos.answer_formats import answer_as_json
from protoreplay.photos.classifier import Classifier
from protoreplay.photos.photo_paths import walk_photos

MOST_BYTES = 2**30
"""Of the file of what was answered."""

PATIENCE = 10.0
"""Seconds that a file may stay as it is and still be in the middle of being written, if it cannot be read."""

LineTaker = Callable[[str], None]
FileMark = tuple[int, int, int]
"""Size, time of change and number of a file: where it is the same, so is the file."""


@dataclass(frozen=True)
class ArrivedPhoto:
    """A photo that is ready to be answered.

    Attributes:
        name: the file's path, or the camera's address and the time.
        content: of the file.
        place: what it is remembered by.
        mark: of the file.
        digest: SHA-256 of the content.
        id: by which a receiver can tell it from all others.
    """

    name: str
    content: bytes
    place: str
    mark: FileMark
    digest: str
    id: str

    @classmethod
    def of(cls, name: str, content: bytes, place: str, mark: FileMark) -> "ArrivedPhoto":
        """With its digest and a number of its own."""
        digest = hashlib.sha256(content).hexdigest()
        own = hashlib.sha256(f"{place}\n{mark[1]}\n{digest}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return cls(name, content, place, mark, digest, own)


class AnswerDelivery(Protocol):
    """Where answers go."""

    def deliver(self, message: dict[str, Any], again: bool) -> None:
        """Return when the message has arrived; `again`: a process that was killed may have delivered it already."""


class WatchState:
    """What was answered, in a file of JSON lines: it says before and after each delivery what is being delivered.

    Args:
        path: of the file, made if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.begun = path, ""
        self._done: dict[str, tuple[FileMark, str]] = {}
        make_cache_folder(path.parent)
        for line in read_regular(path, MOST_BYTES).splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):  # a line that a kill has cut off
                self._take(plain_json(line))

    def is_done(self, place: str, mark: FileMark) -> bool:
        """Whether this very file was answered."""
        return self._done.get(place, ((0, 0, 0), ""))[0] == mark

    def has_content(self, place: str, digest: str) -> bool:
        """Whether the last that was answered from there had this content."""
        return self._done.get(place, ((0, 0, 0), ""))[1] == digest

    def begin(self, photo: ArrivedPhoto) -> bool:
        """Write down that a photo is being delivered; whether that was begun before, nobody knows with what end."""
        again = self.begun == photo.id
        if not again:
            self._append({"begin": photo.id})
        return again

    def finish(self, photo: ArrivedPhoto) -> None:
        """Write down that a photo is done."""
        self._append({"place": photo.place, "mark": photo.mark, "digest": photo.digest})

    def _append(self, entry: dict[str, Any]) -> None:
        self._take(entry)
        with self.path.open("ab") as file:
            file.write(b"\n" + json.dumps(entry).encode())
            file.flush()
            os.fsync(file.fileno())

    def _take(self, entry: dict[str, Any]) -> None:
        if "begin" in entry:
            self.begun = str(entry["begin"])
        else:
            size, changed, number = map(int, entry["mark"])
            self._done[str(entry["place"])] = ((size, changed, number), str(entry["digest"]))


def state_file(*about: object) -> Path:
    """Where it is kept what was answered, by what is watched and where answers go."""
    key = hashlib.sha256("\n".join(map(str, about)).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return cache_folder() / "watch" / f"{key}.jsonl"


class WatchedFolder:
    """The photos in a folder and below.

    Args:
        folder: to look at.
        state: what was answered.
        patience: seconds, as in `PATIENCE`.
    """

    def __init__(self, folder: Path, state: WatchState, patience: float = PATIENCE) -> None:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: give one, or a camera's address (http://... or rtsp://...)")
        self.folder, self.state, self.patience = folder, state, patience
        self._waiting: dict[Path, tuple[FileMark, float]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a file may still be in the middle of being written."""
        return bool(self._waiting)

    def look(self) -> Iterator[ArrivedPhoto]:
        """Photos that are ready, in the order of their names."""
        before, self._waiting = self._waiting, {}
        # Photos inside zip files are not taken: of them it cannot be told which have been answered.
        for path in [photo for photo in walk_photos([self.folder]) if isinstance(photo, Path)]:
            with contextlib.suppress(OSError):  # gone again, or not to be read: perhaps at the next look
                mark, place = _mark(path), str(path.relative_to(self.folder))
                if not mark[0] or self.state.is_done(place, mark):
                    continue
                if path not in before or before[path][0] != mark:
                    self._waiting[path] = (mark, time.monotonic())
                    continue
                photo = ArrivedPhoto.of(str(path), path.read_bytes(), place, mark)
                if _mark(path) != mark:
                    self._waiting[path] = (_mark(path), time.monotonic())
                elif self.state.has_content(place, photo.digest):
                    self.state.finish(photo)
                else:
                    self._waiting[path] = before[path]
                    yield photo

    def is_unfinished(self, photo: ArrivedPhoto) -> bool:
        """Whether a photo that cannot be read may still be being written; what is not is no longer waited for."""
        since = self._waiting[Path(photo.name)][1]
        return time.monotonic() - since < self.patience

    def done(self, photo: ArrivedPhoto) -> None:
        """It was answered."""
        self._waiting.pop(Path(photo.name), None)


class WatchedCamera:
    """The picture at an address; one that has not changed is not answered again.

    Args:
        address: `http://`, `https://` or `rtsp://`.
        state: what was answered.
        say: hears when the camera cannot be reached, once for each reason.
    """

    is_waiting = False

    def __init__(self, address: str, state: WatchState, say: LineTaker) -> None:
        self.camera, self.state, self.say, self._problem = cameras.SnapshotCamera(address), state, say, ""

    def look(self) -> Iterator[ArrivedPhoto]:
        """The picture of this moment, if there is a new one."""
        try:
            content = self.camera.snapshot()
        except UserError as error:
            if str(error) != self._problem:
                self.say(f"{error}; trying again")
            self._problem = str(error)
            return
        self._problem = ""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        photo = ArrivedPhoto.of(f"{self.camera.shown} {moment}", content, self.camera.shown, (0, time.time_ns(), 0))
        if not self.state.has_content(photo.place, photo.digest):
            yield photo

    def is_unfinished(self, photo: ArrivedPhoto) -> bool:
        """It is not: it came whole."""
        return False

    def done(self, photo: ArrivedPhoto) -> None:
        """There is nothing to note."""


def watch_photos(
    classifier: Classifier,
    source: WatchedFolder | WatchedCamera,
    state: WatchState,
    deliveries: Sequence[AnswerDelivery],
    every: float = 1.0,
    once: bool = False,
    before_look: Callable[[], None] = lambda: None,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Answer photos as they arrive, until interrupted or, `once`, until none is left; how many were answered.

    Args:
        classifier: answers.
        source: gives photos.
        state: is told of each.
        deliveries: each gets each message.
        every: seconds between two looks.
        once: stop when all that is there is answered.
        before_look: called before each look, for example to take a model that has learned more.
        pause: waits.
    """
    count = 0
    while True:
        before_look()
        for photo, message in _answered(classifier, source):
            again = state.begin(photo)
            for delivery in deliveries:
                delivery.deliver(message, again)
            state.finish(photo)
            source.done(photo)
            count += 1
        if once and not source.is_waiting:
            return count
        pause(every)


def _answered(
    classifier: Classifier, source: WatchedFolder | WatchedCamera
) -> Iterator[tuple[ArrivedPhoto, dict[str, Any]]]:
    asked: collections.deque[ArrivedPhoto] = collections.deque()

    def contents() -> Iterator[bytes]:
        for photo in source.look():
            asked.append(photo)
            yield photo.content

    for answer in classifier.predict(contents()):
        photo = asked.popleft()
        if answer.error and source.is_unfinished(photo):
            continue
        message = json.loads(answer_as_json(dataclasses.replace(answer, photo=photo.name)))
        yield photo, {**message, "id": photo.id, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


class LineDelivery:
    """Messages as JSON lines.

    Args:
        write: takes a line.
    """

    def __init__(self, write: LineTaker) -> None:
        self.write = write

    def deliver(self, message: dict[str, Any], again: bool) -> None:
        """Write a line."""
        self.write(json.dumps(message, ensure_ascii=False))


class ProgramDelivery:
    """Messages to a program, which is started for each and reads it from its standard input.

    Args:
        command: the program and its arguments, as in a shell.
        say: hears when it fails.
    """

    def __init__(self, command: str, say: LineTaker) -> None:
        self.words, self.say = shlex.split(command), say
        if not self.words:
            raise UserError("--exec '': name a program")

    def deliver(self, message: dict[str, Any], again: bool) -> None:
        """Run the program to its end."""
        try:
            code = subprocess.run(self.words, input=(json.dumps(message) + "\n").encode(), check=False).returncode
        except OSError as error:
            raise UserError(f"--exec {self.words[0]}: {error.strerror}") from None
        if code:
            self.say(f"{self.words[0]} ended with {code} for {message['photo']}")


def _mark(path: Path) -> FileMark:
    about = path.stat()
    return about.st_size, about.st_mtime_ns, about.st_ino
