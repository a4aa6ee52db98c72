"""Lessons: photos are looked at in the background, a person sees what they would do, and keeps or drops them."""

import functools
import logging
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from protoreplay.core.errors import UserError
from protoreplay.photos.embedding import embed_photos
from protoreplay.photos.photo_model import checked_class_name
from protoreplay.photos.serve.served_model import ServedModel
from protoreplay.photos.teaching import PreparedPhotos, TeachingReport, learn_prepared, prepare_photos

MOST_WAITING = 4
"""Lessons that are looked at or wait for it; their photos are in memory."""
MOST_REMEMBERED = 32


class TooManyLessonsError(UserError):
    """More lessons are being looked at than the server's memory should hold."""


class LessonDroppedError(UserError):
    """A lesson whose photos nobody wants to be looked at any more."""


@dataclass
class Lesson:
    """Photos of a class on their way into the model.

    Attributes:
        id: unguessable.
        label: the class that is taught.
        total: photos.
        done: photos looked at so far.
        state: `looking`, `ready` (to be kept or dropped), `learned`, `failed`.
        report: what it would do, or has done.
        error: why it failed.
        prepared: the photos once they were looked at, until they are learned.
    """

    id: str
    label: str
    total: int
    done: int = 0
    state: str = "looking"
    report: TeachingReport | None = None
    error: str = ""
    prepared: PreparedPhotos | None = field(default=None, repr=False)


class Lessons:
    """All lessons of a server; one at a time is looked at, so that asking stays fast."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._pool = ThreadPoolExecutor(1, "lessons")
        self._lock = threading.Lock()
        self._all: dict[str, Lesson] = {}
        self._waiting = 0

    def begin(self, label: str, photos: Sequence[bytes]) -> tuple[Lesson, "Future[None]"]:
        """Look at photos of a class; the lesson says how far it is, the future ends when it is ready or failed."""
        lesson = Lesson(secrets.token_urlsafe(12), checked_class_name(label), len(photos))
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise TooManyLessonsError(f"{MOST_WAITING} lessons are being looked at: wait for one to end")
            self._waiting += 1
            self._all[lesson.id] = lesson
            for old in [one.id for one in self._all.values() if one.state != "looking"]:
                if len(self._all) > MOST_REMEMBERED:
                    del self._all[old]
        return lesson, self._pool.submit(self._look, lesson, photos)

    def get(self, id: str) -> Lesson | None:
        """The lesson of that name, if it is remembered."""
        return self._all.get(id)

    def keep(self, lesson: Lesson) -> TeachingReport:
        """Learn a lesson that is ready."""
        with self._lock:
            prepared, lesson.prepared = lesson.prepared, None
        if prepared is None:
            raise UserError(lesson.error or f"this lesson is not ready to be kept: it is {lesson.state}")
        try:
            lesson.report = self._served.learn(prepared)
        except BaseException:
            lesson.prepared = prepared
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

    def _look(self, lesson: Lesson, photos: Sequence[bytes]) -> None:
        def tell(count: int) -> None:
            lesson.done += count
            if lesson.id not in self._all:
                raise LessonDroppedError("this lesson was dropped")

        try:
            tell(0)
            model = self._served.current.model
            embed = functools.partial(embed_photos, self._served.encoder, thumbnails=model.keep > 0)
            prepared = prepare_photos({lesson.label: photos}, embed, tell)
            _, lesson.report = learn_prepared(model, prepared)
            lesson.prepared = prepared
            lesson.state = "ready"
        except UserError as error:
            lesson.error, lesson.state = str(error), "failed"
        except BaseException:
            logging.getLogger(__name__).exception("a lesson failed")
            lesson.error, lesson.state = "an internal error occurred; the program's log has the details", "failed"
            raise
        finally:
            with self._lock:
                self._waiting -= 1
