"""JSON that came from elsewhere: held against a schema once, where it comes in."""

import functools
import json
from collections.abc import Hashable
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T")

SCHEMA = ConfigDict(strict=True, extra="ignore", frozen=True)
"""Of the pydantic models that describe files: nothing is converted, and what a later version adds is passed over."""


def checked_json(content: str | bytes, kind: type[T]) -> T:
    """The value of a JSON text, of a type that pydantic knows; a `ValueError` in one line for anything else."""
    return checked_value(plain_json(content), kind)


def checked_value(value: Any, kind: type[T]) -> T:
    """The same of what `plain_json` gave."""
    try:
        checked: T = _adapter(kind).validate_python(value)
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


def printable(text: str) -> str:
    """A text with everything escaped that would move a terminal's cursor or end a line.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
