"""Teaching in portions, and correcting answers to photos that were asked about."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Form, UploadFile
from fastapi import Path as PathPart
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from protoreplay.core.errors import UserError
from protoreplay.photos.photo_model import LONGEST_NAME, PhotoModel, checked_class_name
from protoreplay.photos.serve import uploads, views
from protoreplay.photos.serve.asked import AskedPhotos
from protoreplay.photos.serve.lessons import Lesson, Lessons
from protoreplay.photos.serve.routes_ask import Keys, PhotoKey
from protoreplay.photos.serve.served_model import ServedModel
from protoreplay.photos.teaching import PreparedPhotos, TeachingReport, learn_prepared
from protoreplay.photos.undo import UndoableModel

Label = Annotated[str, Form(description="the class that the photos show", max_length=1000)]
Photos = Annotated[list[UploadFile], File(description="files of photos")]
More = Annotated[bool, Form(description="whether another portion of photos follows")]
LessonId = Annotated[str, PathPart(max_length=64)]
ClassLabel = Annotated[str, Field(max_length=LONGEST_NAME)]


class CorrectBody(BaseModel):
    """Photos that were asked about, and the class that they show."""

    label: ClassLabel
    keys: Keys


class ForgetPhotoBody(BaseModel):
    """A kept photo of a class, by the key of its thumbnail."""

    label: ClassLabel
    key: PhotoKey


class CorrectionView(BaseModel):
    """What a correction did; if anything is `missing`, nothing: ask about those photos first."""

    learned: int
    known: int
    moved: int = Field(description="photos that another class was taught before, and no longer has")
    warnings: list[str]
    missing: list[str]


def lesson_routes(lessons: Lessons) -> APIRouter:
    """The routes of lessons: photos are looked at first, and then kept or dropped."""
    api = APIRouter(prefix="/api/lessons", tags=["teach"])

    def found(id: str) -> Lesson:
        lesson = lessons.get(id)
        if lesson is None:
            raise HTTPException(404, "there is no such lesson (any more)")
        return lesson

    @api.post("", status_code=202)
    def begin(label: Label, photos: Photos, more: More = False) -> views.LessonView:
        """Look at photos of a class, without learning them yet."""
        return views.lesson_view(lessons.begin(label, uploads.read_uploads(photos), more)[0])

    @api.post("/{id}/photos")
    def add(id: LessonId, label: Label, photos: Photos, more: More = False) -> views.LessonView:
        """Another portion of a lesson, of any class; the answer comes when it was looked at."""
        lesson = found(id)
        lessons.add(lesson, label, uploads.read_uploads(photos), more).result()
        return views.lesson_view(lesson)

    @api.get("/{id}")
    def progress(id: LessonId) -> views.LessonView:
        """How far a lesson is; once it is ready, what it would do to the other classes."""
        return views.lesson_view(found(id))

    @api.post("/{id}/keep")
    def keep(id: LessonId) -> views.LessonView:
        """Learn a lesson that is ready."""
        lesson = found(id)
        lessons.keep(lesson)
        return views.lesson_view(lesson)

    @api.delete("/{id}", status_code=204)
    def drop(id: LessonId) -> None:
        """Drop a lesson without learning it."""
        lessons.drop(found(id))

    return api


def correction_routes(served: ServedModel, asked: AskedPhotos) -> APIRouter:
    """The routes that change what single photos stand for."""
    api = APIRouter(prefix="/api", tags=["teach"])

    @api.post("/correct")
    def correct(body: CorrectBody) -> CorrectionView:
        """Teach photos that were asked about; one that another class was taught moves."""
        label = checked_class_name(body.label)
        photos, missing = asked.find(int(key, 16) for key in body.keys)
        if missing:
            return CorrectionView(learned=0, known=0, moved=0, warnings=[], missing=[f"{k:016x}" for k in missing])
        done: list[tuple[int, TeachingReport]] = []

        def step(state: UndoableModel) -> UndoableModel:
            model, moved = _without_photos(state.model, [photo.key for photo in photos], label)
            model, report = learn_prepared(model, PreparedPhotos({label: photos}))
            done.append((moved, report))
            return state.changed_to(model)

        served.change(step)
        ((moved, report),) = done
        return CorrectionView(
            learned=sum(report.learned.values()),
            known=sum(report.known.values()),
            moved=moved,
            warnings=[str(warning) for warning in report.warnings],
            missing=[],
        )

    @api.post("/forget-photo")
    def forget_photo(body: ForgetPhotoBody) -> views.StateView:
        """Remove one kept photo of a class. Until the server stops it is in its memory, so that this can be undone."""
        key = int(body.key, 16)
        own = served.current.model.find_class(body.label)
        if key not in own.sums.keys:
            raise UserError(f"'{body.label}' does not keep this photo singly, so that it cannot be removed alone")
        current = served.forget_photo(body.label, key)
        asked.drop([key])
        return views.state_view(served, current)

    return api


def _without_photos(model: PhotoModel, keys: list[int], label: str) -> tuple[PhotoModel, int]:
    """Without photos in any other class than `label`, where they are kept singly; and how many those were."""
    moved = 0
    for name, own in list(model.classes.items()):
        if name != label:
            for key in own.sums.keys[np.isin(own.sums.keys, np.array(keys, np.uint64))].tolist():
                model, moved = model.without_photo(name, key), moved + 1
    return model, moved
