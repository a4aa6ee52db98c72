"""The model as a whole: what it can undo, how well it is taught, its settings, and its way in and out."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, File, Query, UploadFile
from fastapi.responses import Response
from pydantic import BaseModel, Field

from protoreplay.photos import enough, export, model_file
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.serve import views, web_bundle
from protoreplay.photos.serve.per_revision import PerRevision
from protoreplay.photos.serve.routes_ask import taught_revision
from protoreplay.photos.serve.served_model import ServedModel
from protoreplay.photos.step_names import ModelStep, StepKind, model_steps
from protoreplay.photos.undo import UNDO_STEPS, UndoableModel

Steps = Annotated[int, Query(ge=1, le=UNDO_STEPS)]


class RevisionView(BaseModel):
    """By which a page knows that what it shows is still true."""

    server: str
    revision: int


class SettingsBody(BaseModel):
    """What may be changed; what is left out stays."""

    unknown: float | None = None


class StepView(BaseModel):
    """A step that can be undone, or done again."""

    kind: StepKind
    classes: list[str]
    into: str
    photos: int
    time: float = Field(description="seconds since 1970; 0 if that is not known")


class StepsView(BaseModel):
    """All of them."""

    revision: int
    undo: list[StepView] = Field(description="oldest first")
    redo: list[StepView] = Field(description="next first")
    saved: bool = Field(description="whether they are in the model's file, so that they outlast the server")


class TaughtView(BaseModel):
    """How well a class is taught, told from its photos, each asked about as if it had not been taught."""

    label: str
    photos: int
    asked: int
    right: int
    half_asked: int = Field(description="the same with every second photo of each class")
    half_right: int
    verdict: enough.TeachingVerdict
    taken_for: list[tuple[str, int]]


class CurvePointView(BaseModel):
    """How right the classes are when they are taught so many photos."""

    photos: float
    classes: dict[str, tuple[int, int]] = Field(description="photos asked about, and of them those answered right")


class JudgedPhotoView(BaseModel):
    """A taught photo, asked about as if it had not been taught."""

    label: str
    taken_for: str
    refused_from: float = Field(description="the share `unknown` from which on the answer is 'I don't know'")
    thumbnail: str = Field(description="a key for /api/thumbnails/{key}; empty where none is kept")


class RefusalsView(BaseModel):
    """What a share `unknown` would do to the taught photos."""

    revision: int
    unknown: float
    photos: list[JudgedPhotoView] = Field(description="those refused first at the start; empty: nothing is refused yet")


def model_routes(served: ServedModel) -> APIRouter:
    """The routes of the whole model."""
    api = APIRouter(prefix="/api", tags=["the model"])

    @api.get("/revision")
    def revision() -> RevisionView:
        """Whether anything has changed, by this server or by the command line."""
        return RevisionView(server=served.id, revision=served.refreshed().number)

    @api.get("/steps")
    def steps() -> StepsView:
        """What can be undone and redone."""
        current = served.refreshed()
        done, undone = (list(map(_step_view, some)) for some in model_steps(current.state))
        return StepsView(revision=current.number, undo=done, redo=undone, saved=not current.state.private)

    @api.post("/undo")
    def undo(steps: Steps = 1) -> views.StateView:
        """Go back to the state before the last change, or before so many."""

        def step(state: UndoableModel) -> UndoableModel:
            for _ in range(steps):
                state = state.undone()
            return state

        return views.state_view(served, served.change(step))

    @api.post("/redo")
    def redo(steps: Steps = 1) -> views.StateView:
        """Do the change again that was undone last, or so many."""

        def step(state: UndoableModel) -> UndoableModel:
            for _ in range(steps):
                state = state.redone()
            return state

        return views.state_view(served, served.change(step))

    @api.post("/settings")
    def settings(body: SettingsBody) -> views.StateView:
        """Change the share of photos that may be answered "I don't know"."""

        def step(state: UndoableModel) -> UndoableModel:
            model = state.model
            if body.unknown in (None, model.unknown):
                return state
            # What was found of the content stays true of it.
            return state.changed_to((model.calibrated() if model.classes else model).configured(body.unknown))

        return views.state_view(served, served.change(step))

    _add_judging(api, served)
    _add_transfer(api, served)
    return api


def _add_judging(api: APIRouter, served: ServedModel) -> None:
    judged, curve = PerRevision(_taught_views), PerRevision(enough.teaching_curve)
    refused = PerRevision(_judged_views)

    @api.get("/taught")
    def how_well() -> list[TaughtView]:
        """How well each class is taught; nothing of a single class."""
        return judged(served.refreshed().model)

    @api.get("/curve")
    def learning_curve() -> list[CurvePointView]:
        """What more photos have brought: with all of them, every second, every fourth; the fewest first."""
        return [CurvePointView(photos=one.photos, classes=one.classes) for one in curve(served.refreshed().model)]

    @api.get("/refusals")
    def refusals() -> RefusalsView:
        """Which taught photos would be answered "I don't know", for any share."""
        current = served.refreshed()
        return RefusalsView(revision=current.number, unknown=current.model.unknown, photos=refused(current.model))


def _add_transfer(api: APIRouter, served: ServedModel) -> None:
    @api.post("/import")
    def take_in(model: Annotated[UploadFile, File(description="a model's file")]) -> views.StateView:
        """Add all classes of another model on the same encoder; classes of one name become one."""
        other = model_file.model_from_bytes(model.file.read(), "the file")
        return views.state_view(served, served.change(lambda state: state.changed_to(state.model.merge(other))))

    @api.get("/model.onnx", response_class=Response, responses={200: {"content": {"application/octet-stream": {}}}})
    def onnx() -> Response:
        """Encoder and classes as one ONNX file."""
        return _download(export.to_onnx(taught_revision(served).model, served.encoder), f"{served.path.stem}.onnx")

    @api.post("/browser.zip", response_class=Response, responses={200: {"content": {"application/zip": {}}}})
    def browser() -> Response:
        """A page that answers in any browser, without a server or a network, with the model inside.

        The first time, `onnxruntime-web` is fetched with `npm pack` and kept: the only request the server ever makes.
        """
        model = taught_revision(served).model
        content = web_bundle.browser_zip(export.to_onnx(model, served.encoder), model.head.names, served.encoder.size)
        return _download(content, f"{served.path.stem}-browser.zip", "application/zip")


def _download(content: bytes, name: str, kind: str = "application/octet-stream") -> Response:
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
    return Response(content, media_type=kind, headers={"Content-Disposition": disposition})


def _step_view(step: ModelStep) -> StepView:
    return StepView(kind=step.kind, classes=list(step.classes), into=step.into, photos=step.photos, time=step.time)


def _taught_views(model: PhotoModel) -> list[TaughtView]:
    return [
        TaughtView(
            label=one.name,
            photos=model.classes[one.name].count,
            asked=one.asked,
            right=one.right,
            half_asked=one.half_asked,
            half_right=one.half_right,
            verdict=one.verdict(),
            taken_for=list(one.taken_for[:3]),
        )
        for one in enough.judge_teaching(model)
    ]


def _judged_views(model: PhotoModel) -> list[JudgedPhotoView]:
    return [
        JudgedPhotoView(
            label=one.name,
            taken_for=one.taken_for,
            refused_from=one.refused_from,
            thumbnail=f"{one.key:016x}" if one.key in model.classes[one.name].thumbnails else "",
        )
        for one in enough.judged_photos(model)
    ]
