"""What a user can do wrong, said in one line."""

import difflib
import errno
import sys
from collections.abc import Iterable

from protoreplay.core.words import printable


class UserError(Exception):
    """A wrong call or bad input. Its message is one line: what is wrong and what would be right."""


class BusyError(UserError):
    """Others hold what is needed, for longer than we wait."""


def unknown_name(what: str, name: str, known: Iterable[str], where: str = "", forms: Iterable[str] = ()) -> UserError:
    """The error for a name that does not exist: the nearest one that does, all of them, and other forms of names."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return UserError(f"unknown {what} '{name}'{where}{hint}; known: {', '.join([*names, *forms])}")


def in_one_line(error: BaseException) -> str:
    """What went wrong, for people: a `UserError` says it itself, of others the kind is told too."""
    text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def disk_is_full(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, says that there is no room on a disk, or none for this user."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def known_name(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    """`name` if it is one of `known`; the error of `unknown_name` is raised if it is not."""
    names = list(known)
    if name not in names:
        raise unknown_name(what, name, names, where)
    return name


def print_to_stderr(line: str) -> None:
    """A line for people, beside what a command prints; what a file's name has that is no text is escaped."""
    print(printable(line), file=sys.stderr, flush=True)
