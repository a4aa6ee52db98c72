"""The HTTP API and the page's files."""

import contextlib
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import jinja2
from fastapi import APIRouter, FastAPI, File, Form, Request, UploadFile
from fastapi import Path as PathPart
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from protoreplay._version import __version__
from protoreplay.core.errors import BusyError, UserError, disk_is_full
from protoreplay.photos import model_file
from protoreplay.photos.serve import uploads, views
from protoreplay.photos.serve.asked import AskedPhotos
from protoreplay.photos.serve.guard import RequestGuard
from protoreplay.photos.serve.lessons import Lessons, TooManyLessonsError
from protoreplay.photos.serve.routes_ask import ask_routes
from protoreplay.photos.serve.routes_model import model_routes
from protoreplay.photos.serve.routes_samples import sample_routes
from protoreplay.photos.serve.routes_teach import correction_routes, lesson_routes
from protoreplay.photos.serve.served_model import ServedModel
from protoreplay.photos.undo import UndoableModel

PAGE = Path(__file__).parent / "page"
Photos = Annotated[list[UploadFile], File(description="files of photos")]
MOST_CHARACTERS = 1000
"""Of a class name that comes in; what a model takes is far shorter."""


ClassName = Annotated[str, Field(max_length=MOST_CHARACTERS)]


class ClassBody(BaseModel):
    """The class that is meant."""

    label: ClassName


class RenameBody(ClassBody):
    """A class and its new name."""

    new: ClassName


class UniteBody(ClassBody):
    """A class and the one that takes it in."""

    into: ClassName


class ErrorView(BaseModel):
    """What is wrong, and what would be right, in one line."""

    detail: str


ERRORS = {code: {"model": ErrorView} for code in (400, 404, 413, 422, 429, 503, 507)}


def create_app(served: ServedModel, host: str = "127.0.0.1", token: str | None = None) -> FastAPI:
    """The application that serves a model.

    Args:
        served: owns the model.
        host: the address that will be listened on.
        token: asked of every request; needed where others can reach the address.
    """
    lessons = Lessons(served)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        lessons.close()

    app = FastAPI(
        title="protoreplay",
        version=__version__,
        description="Teach a photo classifier, and ask it. Send photos as multipart/form-data, all else as JSON.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(RequestGuard, host=host, token=token, most_bytes=uploads.MOST_REQUEST)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(OSError, _disk_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    asked = AskedPhotos(served)
    own = (_reading_routes(served), _teaching_routes(lessons), _changing_routes(served, asked))
    other = (lesson_routes(lessons), correction_routes(served, asked), model_routes(served), sample_routes())
    for routes in (ask_routes(served, asked), *own, *other):
        app.include_router(routes, responses=ERRORS)  # type: ignore[arg-type]

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def docs() -> str:
        template = jinja2.Environment(autoescape=True).from_string(PAGE.with_name("docs.html").read_text("utf-8"))
        return template.render(api=app.openapi())

    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


def _reading_routes(served: ServedModel) -> APIRouter:
    api = APIRouter(prefix="/api", tags=["ask and look"])

    @api.get("/classes")
    def classes() -> views.StateView:
        """The classes, what is kept of each, and what they are confused with."""
        return views.state_view(served, served.refreshed())

    @api.get("/history")
    def history() -> list[views.EventView]:
        """What was done, oldest first."""
        return [views.EventView(**event) for event in served.refreshed().model.history]

    @api.get("/map")
    def class_map() -> views.MapView:
        """The prototypes in two dimensions with their spread, and the confusion expected between them."""
        return views.map_view(served.refreshed())

    @api.get("/thumbnails/{key}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
    def thumbnail(key: Annotated[str, PathPart(pattern="^[0-9a-f]{16}$")]) -> Response:
        """A kept thumbnail."""
        number = int(key, 16)
        for own in served.current.model.classes.values():
            if number in own.thumbnails:
                return Response(own.thumbnails[number], media_type="image/jpeg")
        raise HTTPException(404, "no such thumbnail is kept")

    @api.get("/model", response_class=Response, responses={200: {"content": {"application/octet-stream": {}}}})
    def model() -> Response:
        """The model's file, for `protoreplay predict` or another server."""
        current = served.current
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(served.path.name, safe='', errors='replace')}",
            "X-Revision": str(current.number),
        }
        content = model_file.model_to_bytes(current.model)
        return Response(content, media_type="application/octet-stream", headers=headers)

    return api


def _teaching_routes(lessons: Lessons) -> APIRouter:
    api = APIRouter(prefix="/api", tags=["teach"])
    Label = Annotated[str, Form(description="the class that the photos show", max_length=MOST_CHARACTERS)]  # noqa: N806

    @api.post("/learn")
    def learn(label: Label, photos: Photos) -> views.LessonView:
        """Teach photos of a class, and answer when they are learned."""
        lesson, ready = lessons.begin(label, uploads.read_uploads(photos))
        ready.result()
        lessons.keep(lesson)
        return views.lesson_view(lesson)

    return api


def _changing_routes(served: ServedModel, asked: AskedPhotos) -> APIRouter:
    api = APIRouter(prefix="/api", tags=["change"])

    def change(step: Callable[[UndoableModel], UndoableModel]) -> views.StateView:
        return views.state_view(served, served.change(step))

    @api.post("/forget")
    def forget(body: ClassBody) -> views.StateView:
        """Remove a class. Until the server stops it is in its memory, so that this can be undone."""
        asked.drop(served.current.model.find_class(body.label).seen.tolist())
        return views.state_view(served, served.forget(body.label))

    @api.post("/rename")
    def rename(body: RenameBody) -> views.StateView:
        """Give a class another name."""
        return change(lambda state: state.changed_to(state.model.rename(body.label, body.new)))

    @api.post("/unite")
    def unite(body: UniteBody) -> views.StateView:
        """Make two classes one, of the second's name."""
        return change(lambda state: state.changed_to(state.model.unite(body.label, body.into)))

    return api


_STATUS: dict[type[UserError], int] = {uploads.UploadTooLargeError: 413, TooManyLessonsError: 429, BusyError: 503}


def _user_error(_: Request, error: Exception) -> JSONResponse:
    usual = 507 if disk_is_full(error) else 422
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), usual)
    # A name from outside may be halves of characters, which cannot be sent.
    detail = str(error).encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": detail}, status, {"Retry-After": "5"} if status == 503 else None)


def _disk_error(_: Request, error: Exception) -> JSONResponse:
    if disk_is_full(error):
        return JSONResponse({"detail": "the disk of the server is full: nothing was changed; make room there"}, 507)
    if isinstance(error, OSError) and error.errno in (errno.EIO, errno.EINTR, errno.EACCES, errno.EROFS):
        return JSONResponse({"detail": f"the server cannot write its file ({error.strerror}): look at its disk"}, 503)
    raise error


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    # The files of a form are put on the disk while it is read; where they do not fit, FastAPI calls it a wrong form.
    return _disk_error(request, error) if disk_is_full(error) else await http_exception_handler(request, error)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
    return JSONResponse({"detail": "; ".join(problems).encode("utf-8", "backslashreplace").decode()}, 422)
