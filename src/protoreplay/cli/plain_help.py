"""Help without the types of Python: `--jobs N` where typer would print `<int range>`, and nothing behind a switch."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_VALUES = {int: "N", float: "NUMBER", Path: "PATH", bool: ""}
"""What stands for a value of each type; TEXT for any other."""


def _with_value_words(parameters: Iterable[Any]) -> list[Any]:
    """The parameters, each with a word for its value where it has none."""
    found = list(parameters)
    for one in found:
        if isinstance(one, TyperOption) and one.metavar is None:
            one.metavar = _VALUES.get(one.type_descriptor.annotation, "TEXT")
        elif isinstance(one, TyperArgument):
            # Its name is shown already: a second word behind it would say the same again.
            vars(one)["display_type_rich"] = lambda ctx: ""
    return found


def _as_manuals_write(piece: str) -> str:
    """`{NAME}` as `NAME`; `[[NAME]]` and `[PATH...]...` without what stands there twice."""
    plain = piece.replace("{", "").replace("}", "").replace("[[", "[").replace("]]", "]")
    return re.sub(r"\.\.\.(\]?)\.\.\.", r"...\1", plain)


class PlainCommand(TyperCommand):
    """A command whose help shows no types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options."""
        return _with_value_words(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the line that shows how it is used."""
        return [_as_manuals_write(piece) for piece in super().collect_usage_pieces(ctx)]


class PlainGroup(TyperGroup):
    """A group of commands whose help shows no types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options."""
        return _with_value_words(super().get_params(ctx))
