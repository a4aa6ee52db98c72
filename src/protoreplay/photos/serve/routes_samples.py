"""Sample photos for whoever has none at hand."""

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi import Path as PathPart
from fastapi.responses import Response
from pydantic import BaseModel, Field

from protoreplay.photos.serve import samples

Number = Annotated[int, PathPart(ge=0, lt=samples.COUNT)]


class SampleView(BaseModel):
    """Sample photos of one kind, by their numbers for /api/samples/{label}/{number}."""

    label: str
    teach: list[int]
    ask: list[int] = Field(description="photos that are not taught, to ask about")


def sample_routes() -> APIRouter:
    """The routes of the sample photos."""
    api = APIRouter(prefix="/api/samples", tags=["samples"])

    @api.get("")
    def kinds() -> list[SampleView]:
        """What there is."""
        taught, asked = list(range(samples.ASKED_FROM)), list(range(samples.ASKED_FROM, samples.COUNT))
        fruit = [SampleView(label=kind, teach=taught, ask=asked) for kind in samples.TAUGHT]
        return [*fruit, SampleView(label=samples.STRANGE, teach=[], ask=asked[:1])]

    @api.get("/{label}/{number}", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
    def photo(label: Literal["apple", "lemon", "pear", "cup"], number: Number) -> Response:
        """One of them."""
        return Response(samples.sample_jpeg(label, number), media_type="image/jpeg")

    return api
