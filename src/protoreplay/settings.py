"""Frozen, validated settings, and errors about them in one line."""

import difflib
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from protoreplay.errors import UserError


class Settings(BaseModel):
    """Base of every configuration: frozen, no unknown keys, every field with a default and a description."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def parse(cls, values: Mapping[str, Any], owner: str) -> Self:
        """Validate `values` (strings from a command line are converted); a mistake is a `UserError` naming the key."""
        for key in values:
            if key not in cls.model_fields:
                raise unknown("setting", key, cls.model_fields, f" of {owner}")
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            wrong = first["loc"][0]
            # Where a value may be of several kinds, each kind has an error of its own.
            problems = [e["msg"].removeprefix("Value error, ") for e in error.errors() if e["loc"][0] == wrong]
            text = ", or ".join(problem[:1].lower() + problem[1:] for problem in problems)
            raise UserError(f"{owner}: {wrong}={first['input']}: {text}") from None


def unknown(what: str, name: str, known: Mapping[str, object] | list[str], where: str = "") -> UserError:
    """The error for a name that does not exist: the nearest one that does, and all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return UserError(f"unknown {what} '{name}'{where}{hint}; known: {', '.join(names)}")
