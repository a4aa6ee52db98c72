"""Lessons: photos are looked at in the background, a person sees what they would do, and keeps or drops them."""

import copy
import logging
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from protoreplay.core.errors import UserError
from protoreplay.photos.classifier import Lesson, TeachingReport
from protoreplay.photos.model import checked_name
from protoreplay.photos.serve.served_model import ServedModel

MOST_WAITING = 4
"""Lessons that are looked at or wait for it; their photos are in memory."""
MOST_REMEMBERED = 32


class TooManyLessonsError(UserError):
    """Too many lessons at once."""


class DroppedError(UserError):
    """Nobody wants to know any more."""


@dataclass
class PendingLesson:
    """One lesson on its way.

    Attributes:
        id: unguessable.
        label: the class that is taught.
        total: photos.
        done: photos looked at so far.
        state: `looking`, `ready` (to be kept or dropped), `learned`, `failed`.
        report: what it would do, or has done.
        error: why it failed.
    """

    id: str
    label: str
    total: int
    done: int = 0
    state: str = "looking"
    report: TeachingReport | None = None
    error: str = ""
    lesson: Lesson | None = field(default=None, repr=False)


class Lessons:
    """All lessons of a server; one at a time is looked at, so that asking stays fast."""

    def __init__(self, keeper: ServedModel) -> None:
        """None yet."""
        self._keeper = keeper
        self._pool = ThreadPoolExecutor(1, "lessons")
        self._lock = threading.Lock()
        self._all: dict[str, PendingLesson] = {}
        self._waiting = 0

    def begin(self, label: str, photos: Sequence[bytes]) -> tuple[PendingLesson, "Future[None]"]:
        """Look at photos of a class; the work says how far it is, the future ends when it is ready or has failed."""
        work = PendingLesson(secrets.token_urlsafe(12), checked_name(label), len(photos))
        with self._lock:
            if self._waiting >= MOST_WAITING:
                raise TooManyLessonsError(f"{MOST_WAITING} lessons are being looked at: wait for one to end")
            self._waiting += 1
            self._all[work.id] = work
            for old in [one.id for one in self._all.values() if one.state != "looking"]:
                if len(self._all) > MOST_REMEMBERED:
                    del self._all[old]
        return work, self._pool.submit(self._look, work, photos)

    def get(self, id: str) -> PendingLesson | None:
        """The lesson of that name, if it is remembered."""
        return self._all.get(id)

    def keep(self, work: PendingLesson) -> TeachingReport:
        """Learn a lesson that is ready."""
        with self._lock:
            lesson, work.lesson = work.lesson, None
        if lesson is None:
            raise UserError(work.error or f"this lesson is not ready to be kept: it is {work.state}")
        try:
            work.report = self._keeper.change(lambda classifier: classifier.teach(lesson))
        except BaseException:
            work.lesson = lesson
            raise
        work.state = "learned"
        return work.report

    def drop(self, work: PendingLesson) -> None:
        """Forget a lesson that was not kept; if it is looked at, that ends."""
        with self._lock:
            self._all.pop(work.id, None)

    def close(self) -> None:
        """Begin no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look(self, work: PendingLesson, photos: Sequence[bytes]) -> None:
        def tell(count: int) -> None:
            work.done += count
            if work.id not in self._all:
                raise DroppedError("this lesson was dropped")

        try:
            tell(0)
            trial = copy.copy(self._keeper.current.classifier)
            lesson = trial.study({work.label: photos}, tell)
            work.report = trial.teach(lesson)
            work.lesson = lesson
            work.state = "ready"
        except UserError as error:
            work.error, work.state = str(error), "failed"
        except BaseException:
            logging.getLogger(__name__).exception("a lesson failed")
            work.error, work.state = "this failed by a fault of the program, its log says more", "failed"
            raise
        finally:
            with self._lock:
                self._waiting -= 1
