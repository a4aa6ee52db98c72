"""What the API answers, and how it follows from a model."""

import base64
import math
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from protoreplay.photos import advice, class_summary
from protoreplay.photos.answers import Answer, nearest_thumbnail
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.serve.lessons import Lesson
from protoreplay.photos.serve.served_model import ModelRevision, ServedModel
from protoreplay.photos.sorting import LEAST_SURE, class_folders
from protoreplay.photos.teaching import TeachingReport


class ConfusionView(BaseModel):
    """Another class, and the share of photos that will be taken for it."""

    label: str
    share: float


class ClassView(BaseModel):
    """A class, what is kept of it, and what it is confused with."""

    label: str
    photos: int = Field(description="seen")
    kept: dict[str, int] = Field(description="bytes, item by item")
    thumbnails: list[str] = Field(description="keys for /api/thumbnails/{key}")
    fixed: list[str] = Field(description="of these, those of photos that cannot be removed singly")
    exact: bool = Field(description="whether removing a photo leaves the model as if it had never been taught")
    folder: str = Field(description="the name of its folder where photos are sorted by their answers")
    spread: float = Field(description="distance of its photos from their mean; 1 is the mean of all classes")
    first: float = Field(description="learned first, in seconds since 1970; 0 if that is not known")
    last: float
    confused: list[ConfusionView] = Field(description="the classes it is likeliest to be taken for")


class StateView(BaseModel):
    """The whole model, without its numbers."""

    server: str = Field(description="changes when the server is started again")
    revision: int = Field(description="changes since the server started")
    name: str = Field(description="of the model's file")
    encoder: str
    unknown: float = Field(description="share of photos of the classes that may be answered 'I don't know'")
    keep: int = Field(description="thumbnails kept of a class, at most")
    undoable: int = Field(description="changes that can be undone")
    redoable: int = Field(description="undone changes that can be done again")
    unsure: float = Field(description="probability below which an answer is called unsure")
    classes: list[ClassView]


class EventView(BaseModel):
    """Something that was done."""

    time: float = Field(description="seconds since 1970")
    action: str
    classes: dict[str, int] = Field(description="photos by class")


class ChoiceView(BaseModel):
    """A class that a photo may show."""

    label: str
    probability: float
    distance: float = Field(description="squared, from the prototype; 1 is typical of a photo of that class")


class NearestView(BaseModel):
    """The kept thumbnail of the photo most like the one asked about."""

    label: str
    image: str = Field(description="a data: URL")


class AnswerView(BaseModel):
    """What one photo shows."""

    key: str = Field(description="of the photo's content; empty where it could not be read")
    label: str | None = Field(description="null for 'I don't know', and where it could not be read")
    choices: list[ChoiceView]
    familiarity: float = Field(description="below 0 is 'I don't know'")
    off: float = Field(description="how far off what is taught: above 1 is 'I don't know', 0 is as usual")
    nearest: NearestView | None
    error: str = Field(description="why it could not be read")


class PredictView(BaseModel):
    """Answers in the order of the photos, all from one state of the model."""

    revision: int
    answers: list[AnswerView]


class UnreadView(BaseModel):
    """A photo of a lesson that could not be read."""

    photo: int = Field(description="its number in the lesson, from 1")
    error: str


class LessonView(BaseModel):
    """A lesson: how far it is, and what it does or did."""

    id: str
    label: str
    state: str = Field(description="looking, ready, learned or failed")
    done: int
    total: int
    learned: int = Field(description="new photos")
    known: int = Field(description="photos that had been learned before")
    warnings: list[str] = Field(description="classes that will be confused, photos that look misplaced")
    hints: list[str] = Field(description="of the warnings, those of photos that are almost the same")
    errors: list[str] = Field(description="photos that could not be read")
    unread: list[UnreadView] = Field(description="the same, photo by photo")
    error: str = Field(description="why it failed")


class DotView(BaseModel):
    """A class on the map; lengths are in units of a typical photo's distance from its class."""

    label: str
    x: float
    y: float
    spread_x: float = Field(description="standard deviation of the photos whose features are kept")
    spread_y: float
    photos: list[tuple[float, float]] = Field(description="where these are")


class PairView(BaseModel):
    """Two classes that will be confused."""

    one: str
    other: str
    share: float


class MapView(BaseModel):
    """The prototypes in the two dimensions in which they differ most."""

    revision: int
    shown: float = Field(description="share of the differences between prototypes that the map shows")
    classes: list[DotView]
    confusions: list[PairView]


def state_view(served: ServedModel, current: ModelRevision) -> StateView:
    """The classes of a revision."""
    model = current.model
    folders = class_folders(model.classes)
    classes = [
        ClassView(
            label=summary.name,
            photos=summary.photos,
            kept=summary.kept,
            thumbnails=[f"{key:016x}" for key in sorted(model.classes[summary.name].thumbnails)],
            fixed=_fixed(model.classes[summary.name]),
            exact=not model.classes[summary.name].sums.others.weight,
            folder=folders[summary.name],
            spread=summary.spread,
            first=summary.first,
            last=summary.last,
            confused=[ConfusionView(label=name, share=share) for name, share in summary.confused if share >= 0.01],
        )
        for summary in class_summary.summarise_classes(model)
    ]
    return StateView(
        server=served.id,
        revision=current.number,
        name=served.path.name.encode("utf-8", "replace").decode(),
        encoder=model.encoder,
        unknown=model.unknown,
        keep=model.keep,
        undoable=len(current.state.past),
        redoable=len(current.state.future),
        unsure=LEAST_SURE,
        classes=classes,
    )


def _fixed(own: PhotoClass) -> list[str]:
    singly = set(own.sums.keys.tolist())
    return [f"{key:016x}" for key in sorted(own.thumbnails) if key not in singly]


def answer_view(given: Answer, photo: EmbeddedPhoto, model: PhotoModel, nearest: bool = True) -> AnswerView:
    """An answer with its reasons, and with the `nearest` kept photo if that is wanted."""
    kept = nearest_thumbnail(photo, model) if nearest and not given.error else None
    return AnswerView(
        key="" if given.error else f"{photo.key:016x}",
        label=given.label,
        choices=choice_views(given),
        familiarity=given.familiarity,
        off=given.off,
        nearest=kept
        and NearestView(label=kept[0], image="data:image/jpeg;base64," + base64.b64encode(kept[1]).decode("ascii")),
        error=given.error,
    )


def choice_views(given: Answer) -> list[ChoiceView]:
    """The classes of an answer."""
    return [ChoiceView(label=c.label, probability=c.probability, distance=c.distance) for c in given.choices]


def lesson_view(lesson: Lesson) -> LessonView:
    """A lesson as it is now."""
    report = lesson.report or TeachingReport({}, {})
    return LessonView(
        id=lesson.id,
        label=lesson.label,
        state=lesson.state,
        done=lesson.done,
        total=lesson.total,
        learned=sum(report.learned.values()),
        known=sum(report.known.values()),
        warnings=[str(warning) for warning in report.warnings],
        hints=[str(warning) for warning in report.warnings if isinstance(warning, advice.NearDuplicates)],
        errors=[f"photo {number}: {error}" for number, error in lesson.unread],
        unread=[UnreadView(photo=number, error=error) for number, error in lesson.unread],
        error=lesson.error,
    )


def map_view(current: ModelRevision) -> MapView:
    """Principal components of the prototypes, in the metric that answers."""
    model = current.model
    if not model.classes:
        return MapView(revision=current.number, shown=1.0, classes=[], confusions=[])
    head, taught = model.head, model.taught
    names = head.names
    # In the metric that answers, products of prototypes are all that principal components need.
    directions = head.matrix[: len(names)].astype(np.float64) / math.sqrt(head.calibration.noise)
    products = taught.prototypes @ directions.T / math.sqrt(head.calibration.noise)
    squares, axes = np.linalg.eigh((products + products.T) / 2)
    squares = np.maximum(squares[::-1], 0.0)
    flat: np.ndarray[Any, Any] = np.zeros((len(names), 2))
    shown_axes = [axis for axis in range(min(2, len(names))) if squares[axis] > 1e-9]
    for axis in shown_axes:
        flat[:, axis] = axes[:, -1 - axis] / math.sqrt(squares[axis])
    to_map = directions.T @ flat / math.sqrt(head.calibration.noise)
    places = taught.prototypes @ to_map
    dots = []
    for name, member, place in zip(names, taught.members, places, strict=True):
        photos = (member.rows.astype(np.float64) - taught.centre) @ to_map
        # Not from the variances of single dimensions: features vary together.
        spread = photos.std(0, ddof=1) if len(photos) > 1 else np.zeros(2)
        dots.append(
            DotView(
                label=name,
                x=place[0],
                y=place[1],
                spread_x=spread[0],
                spread_y=spread[1],
                photos=[(float(x), float(y)) for x, y in photos],
            )
        )
    shown = float(squares[:2].sum() / squares.sum()) if squares.sum() > 0 else 1.0
    return MapView(revision=current.number, shown=shown, classes=dots, confusions=_pairs(model))


def _pairs(model: PhotoModel, most: int = 50) -> list[PairView]:
    names = model.head.names
    shares = advice.expected_confusions(model)
    overlap = np.triu(shares + shares.T) / 2
    found = [(float(overlap[i, j]), names[i], names[j]) for i, j in zip(*np.nonzero(overlap >= 0.01), strict=True)]
    return [PairView(one=one, other=other, share=share) for share, one, other in sorted(found, reverse=True)[:most]]
