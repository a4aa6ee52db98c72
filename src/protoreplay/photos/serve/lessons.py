"""Lessons: photos are looked at in the background, a person sees what they would do, and keeps or drops them."""

import dataclasses
import logging
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from protoreplay.core.errors import UserError
from protoreplay.photos.embedding import EmbeddedPhoto, embed_photos
from protoreplay.photos.photo_model import checked_class_name
from protoreplay.photos.serve.served_model import ServedModel
from protoreplay.photos.serve.uploads import ReadPhoto
from protoreplay.photos.teaching import PreparedPhotos, TeachingReport, learn_prepared

MOST_WAITING = 4
"""Portions of photos that are looked at or wait for it; their photos are in memory."""
MOST_REMEMBERED = 32
MOST_IN_A_LESSON = 20_000
"""Photos of which the features are held until the lesson is kept or dropped."""


class TooManyLessonsError(UserError):
    """More lessons are being looked at than the server's memory should hold."""


class LessonDroppedError(UserError):
    """A lesson whose photos nobody wants to be looked at any more."""


@dataclass
class Lesson:
    """Photos of one or more classes on their way into the model; they come in portions.

    Attributes:
        id: unguessable.
        label: the class of the first portion.
        total: photos.
        done: photos looked at so far.
        waiting: portions that are not looked at yet.
        state: `looking`, `ready` (to be kept or dropped), `learned`, `failed`.
        report: what it would do, or has done.
        error: why it failed.
        seen: the photos that were looked at, by class, until they are learned.
        unread: photos that could not be read: their number in the lesson, from 1, and why.
    """

    id: str
    label: str
    total: int = 0
    done: int = 0
    waiting: int = 0
    state: str = "looking"
    report: TeachingReport | None = None
    error: str = ""
    seen: dict[str, list[EmbeddedPhoto]] = field(default_factory=dict, repr=False)
    unread: list[tuple[int, str]] = field(default_factory=list)


class Lessons:
    """All lessons of a server; one portion at a time is looked at, so that asking stays fast."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._pool = ThreadPoolExecutor(1, "lessons")
        self._lock = threading.Lock()
        self._all: dict[str, Lesson] = {}
        self._waiting = 0

    def begin(self, label: str, photos: Sequence[ReadPhoto], more: bool = False) -> tuple[Lesson, "Future[None]"]:
        """Look at photos of a class; the lesson says how far it is, the future ends when they are looked at.

        Without `more` photos to come, the lesson is then ready or failed.
        """
        lesson = Lesson(secrets.token_urlsafe(12), checked_class_name(label))
        return lesson, self._submit(lesson, lesson.label, photos, more)

    def add(self, lesson: Lesson, label: str, photos: Sequence[ReadPhoto], more: bool = False) -> "Future[None]":
        """Another portion of a lesson, of the same class or another one."""
        if lesson.state not in ("looking", "ready"):
            raise UserError(lesson.error or f"this lesson takes no more photos: it is {lesson.state}")
        return self._submit(lesson, checked_class_name(label), photos, more)

    def get(self, id: str) -> Lesson | None:
        """The lesson of that name, if it is remembered."""
        return self._all.get(id)

    def keep(self, lesson: Lesson) -> TeachingReport:
        """Learn a lesson that is ready."""
        with self._lock:
            seen, lesson.seen = (lesson.seen, {}) if lesson.state == "ready" else ({}, lesson.seen)
        if not seen:
            raise UserError(lesson.error or f"this lesson is not ready to be kept: it is {lesson.state}")
        try:
            lesson.report = self._served.learn(PreparedPhotos(seen))
        except BaseException:
            lesson.seen = seen
            raise
        lesson.state = "learned"
        return lesson.report

    def drop(self, lesson: Lesson) -> None:
        """Forget a lesson that was not kept; if it is looked at, that ends."""
        with self._lock:
            self._all.pop(lesson.id, None)

    def close(self) -> None:
        """Look at no more photos; what is being looked at ends."""
        with self._lock:
            self._all.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, lesson: Lesson, label: str, photos: Sequence[ReadPhoto], more: bool) -> "Future[None]":
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise TooManyLessonsError(f"{MOST_WAITING} lessons are being looked at: wait for one to end")
            if lesson.total + len(photos) > MOST_IN_A_LESSON:
                raise UserError(f"a lesson has {MOST_IN_A_LESSON} photos at most: teach these first")
            first, lesson.state = lesson.total, "looking"
            lesson.total += len(photos)
            lesson.waiting += 1
            self._waiting += 1
            self._all[lesson.id] = lesson
            for old in [one.id for one in self._all.values() if not one.waiting]:
                if len(self._all) > MOST_REMEMBERED:
                    del self._all[old]
        return self._pool.submit(self._look, lesson, label, photos, first, more)

    def _look(self, lesson: Lesson, label: str, photos: Sequence[ReadPhoto], first: int, more: bool) -> None:
        try:
            self._take(lesson, label, photos, first)
            if not more and lesson.waiting == 1:
                if not lesson.seen:
                    raise UserError(f"class '{label}' has no readable photo: put some in or leave it out")
                _, lesson.report = learn_prepared(self._served.current.model, PreparedPhotos(lesson.seen))
                lesson.state = "ready"
        except UserError as error:
            lesson.error, lesson.state = str(error), "failed"
        except BaseException:
            logging.getLogger(__name__).exception("a lesson failed")
            lesson.error, lesson.state = "an internal error occurred; the program's log has the details", "failed"
            raise
        finally:
            with self._lock:
                lesson.waiting -= 1
                self._waiting -= 1

    def _take(self, lesson: Lesson, label: str, photos: Sequence[ReadPhoto], first: int) -> None:
        contents = [photo for photo in photos if isinstance(photo, bytes)]
        thumbnails = self._served.current.model.keep > 0
        seen = embed_photos(self._served.encoder, contents, thumbnails=thumbnails)
        for number, photo in enumerate(photos, first + 1):
            if lesson.id not in self._all:
                raise LessonDroppedError("this lesson was dropped")
            one = next(seen) if isinstance(photo, bytes) else photo
            if one.error:
                lesson.unread.append((number, one.error))
            else:
                lesson.seen.setdefault(label, []).append(dataclasses.replace(one, name=f"photo {number}"))
            lesson.done += 1
