"""JSON that came from elsewhere: held against a schema once, where it comes in."""

import json
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError

from protoreplay.core.words import printable

T = TypeVar("T")

SCHEMA = ConfigDict(strict=True, extra="ignore", frozen=True)
"""Of the pydantic models that describe files: nothing is converted, and what a later version adds is passed over."""


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _without_control_characters(text: str) -> str:
    if printable(text) != text:
        raise ValueError("it has control characters")
    return text


PlainText = Annotated[str, AfterValidator(_without_control_characters)]
"""A text that can be shown as it is."""


def checked_json(content: str | bytes, kind: type[T]) -> T:
    """The value of a JSON text, of a type that pydantic knows; a `ValueError` in one line for anything else."""
    return checked_value(plain_json(content), kind)


def checked_value(value: Any, kind: type[T]) -> T:
    """The same of what `plain_json` gave."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        checked: T = _ADAPTERS[kind].validate_python(value)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(printable(f"{where}: {first['msg']}")[:200]) from None
    return checked


def plain_json(content: str | bytes) -> Any:
    """The value of a JSON text; a `ValueError` for what is none, or is nested too deeply for Python."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
