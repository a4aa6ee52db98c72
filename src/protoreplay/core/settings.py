"""Frozen, validated settings, and errors about them in one line."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from protoreplay.core.errors import UserError, unknown_name


class Settings(BaseModel):
    """Base of every configuration: frozen, no unknown keys, every field with a default and a description."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def parse(cls, values: Mapping[str, Any], owner: str) -> Self:
        """Validate `values` (strings from a command line are converted); a mistake is a `UserError` naming the key."""
        for key in values:
            if key not in cls.model_fields:
                raise unknown_name("setting", key, cls.model_fields, f" of {owner}")
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            wrong = first["loc"][0]
            # Where a value may be of several kinds, each kind has an error of its own.
            problems = [e["msg"].removeprefix("Value error, ") for e in error.errors() if e["loc"][0] == wrong]
            text = ", or ".join(problem[:1].lower() + problem[1:] for problem in problems)
            raise UserError(f"{owner}: {wrong}={first['input']}: {text}") from None
