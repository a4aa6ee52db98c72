"""Asking: answers with their reasons, again without an upload, and what to label next."""

import base64
import dataclasses
import io
from typing import Annotated

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, File, Query, UploadFile
from fastapi import Path as PathPart
from fastapi.responses import Response
from PIL import Image
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from protoreplay.core.errors import UserError
from protoreplay.data import pictures
from protoreplay.photos.answers import stream_answers
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.explain import Explanation, KeptPhoto, explain_photo, nearest_photos
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.serve import uploads, views
from protoreplay.photos.serve.asked import AskedPhotos
from protoreplay.photos.serve.served_model import ModelRevision, ServedModel
from protoreplay.photos.suggesting import suggest_photos

MOST_KEYS, MOST_SUGGESTED_FROM = 500, 3000
PhotoKey = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Keys = Annotated[list[PhotoKey], Field(min_length=1, max_length=MOST_KEYS, description="of photos asked about before")]
NEAREST = 3


class KeysBody(BaseModel):
    """Photos that were asked about, by the `key` of their answers."""

    keys: Keys


class SuggestBody(BaseModel):
    """Photos to choose from, and how many to suggest."""

    keys: Annotated[list[PhotoKey], Field(min_length=1, max_length=MOST_SUGGESTED_FROM)]
    count: Annotated[int, Field(ge=1, le=100)] = 8


class LikeView(BaseModel):
    """A kept photo that is like the one asked about."""

    label: str
    likeness: float = Field(description="of the features, from -1 to 1 for the same ones")
    thumbnail: str = Field(description="a key for /api/thumbnails/{key}; empty where none is kept")


class ExplanationView(BaseModel):
    """Why a photo is answered as it is."""

    revision: int
    square: str = Field(description="a data: URL: the part of the photo that the encoder looks at")
    lead: list[list[float]] = Field(description="what each place adds to the lead of the answer; empty if unknown")
    labels: list[str] = Field(description="the likeliest class, and the next one over which it leads")
    note: str = Field(description="why nothing is known of the places")
    nearest: list[LikeView]


class SuggestionView(BaseModel):
    """A photo to label."""

    key: str
    label: str | None
    choices: list[views.ChoiceView]
    unsure: float = Field(description="0 to 1")
    like_it: int = Field(description="photos that it stands for")


class AnsweredAgainView(views.PredictView):
    """Answers in the order of the keys, without those of which nothing is remembered."""

    missing: list[str]


def ask_routes(served: ServedModel, asked: AskedPhotos) -> APIRouter:
    """The routes that change nothing, for whoever has a photo."""
    api = APIRouter(prefix="/api", tags=["ask and look"])

    @api.post("/predict")
    def predict(
        photos: Annotated[list[UploadFile], File(description="files of photos")],
        top: Annotated[int, Query(ge=1, le=100)] = 3,
        remember: Annotated[bool, Query(description="so that they can be asked about again by their keys")] = False,
        nearest: Annotated[bool, Query(description="with the kept photo most like each")] = True,
    ) -> views.PredictView:
        """What each photo shows, and why. If none can be read, the answer is 422."""
        current = taught_revision(served)
        seen = asked.look(uploads.read_uploads(photos), remember)
        if all(photo.error for photo in seen):
            raise UserError("; ".join(f"{photo.name}: {photo.error}" for photo in seen))
        return views.PredictView(revision=current.number, answers=_answer_views(seen, current.model, top, nearest))

    @api.post("/answers")
    def answers(body: KeysBody, top: Annotated[int, Query(ge=1, le=100)] = 3) -> AnsweredAgainView:
        """What photos show that were asked about before, as the model is now."""
        current = taught_revision(served)
        found, missing = asked.find(int(key, 16) for key in body.keys)
        given = _answer_views(found, current.model, top, False)
        return AnsweredAgainView(revision=current.number, answers=given, missing=[f"{key:016x}" for key in missing])

    @api.get("/asked/{key}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
    def asked_thumbnail(key: Annotated[str, PathPart(pattern="^[0-9a-f]{16}$")]) -> Response:
        """A small picture of a photo that was asked about."""
        found, _ = asked.find([int(key, 16)])
        if not found or not found[0].thumbnail:
            raise HTTPException(404, "nothing is remembered of this photo")
        return Response(found[0].thumbnail, media_type="image/jpeg")

    _add_reasons(api, served, asked)
    return api


def _add_reasons(api: APIRouter, served: ServedModel, asked: AskedPhotos) -> None:
    @api.post("/explain")
    def explain(photo: Annotated[UploadFile, File(description="the file of a photo")]) -> ExplanationView:
        """Which parts of a photo speak for its answer, and the kept photos most like it."""
        current = taught_revision(served)
        (content,) = uploads.read_uploads([photo])
        assert isinstance(content, bytes)
        square = pictures.decode_picture(io.BytesIO(content), served.encoder.size, fast=True)[0]
        try:
            return _explained(current, explain_photo(current.model, served.encoder, square, "photo 1", NEAREST))
        except UserError as error:  # of encoders that do not average places
            (seen,) = asked.look([content], remember=False)
            kept = nearest_photos(seen, current.model, NEAREST)
            labels = [choice.label for choice in next(stream_answers([seen], current.model, 2)).choices]
            return ExplanationView(
                revision=current.number,
                square=_jpeg_url(square),
                lead=[],
                labels=labels,
                note=str(error),
                nearest=_like_views(kept),
            )

    @api.post("/suggest")
    def suggest(body: SuggestBody) -> list[SuggestionView]:
        """Of photos that were asked about, those to label next; what is taught already is passed over."""
        current = taught_revision(served)
        found, _ = asked.find(int(key, 16) for key in body.keys)
        named = [dataclasses.replace(photo, name=f"{photo.key:016x}") for photo in found]
        return [
            SuggestionView(
                key=one.answer.photo,
                label=one.answer.label,
                choices=views.choice_views(one.answer),
                unsure=one.unsure,
                like_it=one.like_it,
            )
            for one in suggest_photos(current.model, named, body.count)
        ]


def taught_revision(served: ServedModel) -> ModelRevision:
    """The current revision, if it knows any class."""
    current = served.refreshed()
    if not current.model.classes:
        raise UserError("nothing is learned yet: teach photos of a class first")
    return current


def _answer_views(seen: list[EmbeddedPhoto], model: PhotoModel, top: int, nearest: bool) -> list[views.AnswerView]:
    given = stream_answers(seen, model, top)
    return [views.answer_view(one, photo, model, nearest) for one, photo in zip(given, seen, strict=True)]


def _explained(current: ModelRevision, explanation: Explanation) -> ExplanationView:
    return ExplanationView(
        revision=current.number,
        square=_jpeg_url(explanation.pixels),
        lead=explanation.lead.round(6).tolist(),
        labels=[choice.label for choice in explanation.answer.choices],
        note="",
        nearest=_like_views(explanation.nearest),
    )


def _like_views(kept: tuple[KeptPhoto, ...]) -> list[LikeView]:
    return [
        LikeView(label=one.label, likeness=one.likeness, thumbnail=f"{one.key:016x}" if one.thumbnail else "")
        for one in kept
    ]


def _jpeg_url(square: npt.NDArray[np.uint8]) -> str:
    file = io.BytesIO()
    Image.fromarray(square.transpose(1, 2, 0)).save(file, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
