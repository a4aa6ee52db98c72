"""Things by name: those of this package, of installed packages, of a user's file, and of the current session.

A name is looked up in this order: what was registered in this session or is part of the package; `FILE.py:NAME`, an
object in a Python file; an entry point of an installed package. So a method, an encoder or a dataset of one's own needs
no change to this package. `foreign_code` and `install` carry what is not part of an installed package to other
processes and machines.
"""

import functools
import hashlib
import importlib
import importlib.metadata
import linecache
import pickle
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from protoreplay.core.errors import UserError, in_one_line, unknown_name

T = TypeVar("T")


@dataclass(frozen=True)
class SourceFile:
    """A Python file of the user's: where it lies, or lay on the machine it comes from, and its text."""

    path: Path
    text: str


_REGISTRIES: dict[str, "Registry[Any]"] = {}
_SOURCES: dict[str, SourceFile] = {}
"""By their paths as given: each is read once, so that all processes of a grid run the same code."""
_SENT_HERE: set[str] = set()
"""Those of `_SOURCES` that came from another process: what they are does not depend on the folder this one is in."""


class Registry(Generic[T]):
    """Named things of one kind.

    Args:
        kind: what one of them is called in messages, such as `method`.
        own: the package's own, by name; a text `module:attribute` is imported when it is first asked for.
        accept: turns what a user registers, or a file or package holds, into a thing of this kind; a `UserError` or
            `TypeError` for what cannot be one. It is given the object and its name.
        forms: other names that are understood, for messages, such as `FILE.py:NAME`.
    """

    def __init__(
        self, kind: str, own: Mapping[str, T | str], accept: Callable[[Any, str], T], forms: tuple[str, ...] = ()
    ) -> None:
        self.kind, self.group = kind, f"protoreplay.{kind}s"
        self._own, self._accept = dict(own), accept
        self._forms = (*forms, "FILE.py:NAME")
        self._session: dict[str, tuple[Any, T]] = {}
        self._loaded: dict[str, T] = {}
        _REGISTRIES[kind] = self

    def register(self, name: str, thing: Any) -> None:
        """Give a thing a name for this session, and for the worker processes and nodes that do its runs."""
        self._session[name] = thing, self._accept(thing, name)

    def unregister(self, name: str) -> None:
        """Take back what `register` did."""
        del self._session[name]

    def get(self, name: str) -> T:
        """The thing called `name`; a `UserError` that lists all names if there is none."""
        if name in self._session:
            return self._session[name][1]
        place = _place(name)
        if place not in self._loaded:
            self._loaded[place] = self._accept(self._find(name), name)
        return self._loaded[place]

    def names(self) -> list[str]:
        """All names but those of files: the package's own first, then the session's, then other packages'."""
        return list(dict.fromkeys([*self._own, *self._session, *self._entry_points()]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def items(self) -> list[tuple[str, T]]:
        """Names and things."""
        return [(name, self.get(name)) for name in self]

    def values(self) -> list[T]:
        """All things that have a name."""
        return [self.get(name) for name in self]

    def session(self) -> dict[str, Any]:
        """What was registered in this session, as it was given."""
        return {name: given for name, (given, _) in self._session.items()}

    def _find(self, name: str) -> Any:
        if name in self._own:
            found = self._own[name]
            return _imported(found) if isinstance(found, str) else found
        if is_in_file(name):
            return from_file(name)
        entry_points = self._entry_points()
        if name not in entry_points:
            raise unknown_name(self.kind, name, self.names(), forms=self._forms)
        try:
            return entry_points[name].load()
        except Exception as error:  # a package of somebody else's may raise anything
            raise UserError(
                f"{self.kind} {name} of an installed package cannot be loaded: {in_one_line(error)}"
            ) from None

    def _entry_points(self) -> dict[str, importlib.metadata.EntryPoint]:
        return _entry_points(self.group, tuple(sys.path))


@functools.cache
def _entry_points(group: str, places: tuple[str, ...]) -> dict[str, importlib.metadata.EntryPoint]:
    """Of all packages in `places`: read once, because that takes as long as the rest of a short command."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def is_in_file(name: str) -> bool:
    """Whether a name is that of an object in a file, `FILE.py:NAME`."""
    return ".py:" in name


def short_names(names: Iterable[str], taken: Container[str] = ()) -> dict[str, str]:
    """By name, what to call it where people read it: of `FILE.py:NAME` the last part, if nothing else is called that.

    Examples:
        >>> short_names(["sgd", "mine/new.py:FeCAM", "mine/new.py:sgd"])
        {'sgd': 'sgd', 'mine/new.py:FeCAM': 'FeCAM', 'mine/new.py:sgd': 'mine/new.py:sgd'}
    """
    last = {name: name.rpartition(":")[2] if is_in_file(name) else name for name in names}
    times = Counter(last.values())
    return {name: end if times[end] == 1 and end not in taken else name for name, end in last.items()}


def _place(name: str) -> str:
    """A name that means the same wherever this process goes: with the whole path of the file, if it is of one."""
    path, _, attribute = name.rpartition(":")
    return f"{_absolute(path)}:{attribute}" if is_in_file(name) else name


def _absolute(path: str) -> Path:
    return _SOURCES[path].path if path in _SENT_HERE else Path(path).absolute()


def from_file(name: str) -> Any:
    """The object `NAME` of `FILE.py:NAME`; a `UserError` if there is no such file or object, or the file fails."""
    path, _, attribute = name.rpartition(":")
    module = _module(path)
    if not hasattr(module, attribute):
        defined = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise unknown_name("name", attribute, defined, f" in {path}")
    return getattr(module, attribute)


def _module(path: str) -> types.ModuleType:
    """The module in a file, run once a process; its folder is where it finds modules of its own."""
    where = str(_absolute(path))
    name = f"protoreplay_file_{hashlib.sha256(where.encode()).hexdigest()[:12]}"
    source = next((known for known in _SOURCES.values() if str(known.path) == where), None) or _read_source(path)
    if name in sys.modules:
        _SOURCES[path] = source
        return sys.modules[name]
    # So that tracebacks show lines, and settings find their descriptions, where the file itself is not.
    linecache.cache[where] = (len(source.text), None, source.text.splitlines(keepends=True), where)
    module = types.ModuleType(name)
    module.__file__ = where
    sys.modules[name] = module
    if (folder := str(source.path.parent)) not in sys.path:
        sys.path.append(folder)
    try:
        exec(compile(source.text, where, "exec"), vars(module))
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception):
            raise
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
        place = f" (line {lines[-1]})" if lines else ""
        raise UserError(f"{path} cannot be loaded: {in_one_line(error)}{place}") from None
    _SOURCES[path] = source
    return module


def _read_source(path: str) -> SourceFile:
    try:
        return SourceFile(Path(path).absolute(), Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def source_text(path: str) -> str:
    """The text of a user's file as this process runs it, or, where it was not loaded, as it is now."""
    where = str(_absolute(path))
    known = next((source for source in _SOURCES.values() if str(source.path) == where), None)
    return known.text if known else Path(path).read_text(encoding="utf-8")


@dataclass(frozen=True)
class ForeignCode:
    """What other processes need beside this package: user's files, and what was registered in this session.

    Attributes:
        sources: of files, by their path as given.
        session: a pickle of all that was registered, by kind and name; empty where that is nothing.
    """

    sources: tuple[tuple[str, SourceFile], ...] = ()
    session: bytes = b""


def foreign_code() -> ForeignCode:
    """All that was loaded or registered so far in this process; a `UserError` for what cannot be sent."""
    sources = tuple(_SOURCES.items())
    session = {kind: registry.session() for kind, registry in _REGISTRIES.items() if registry.session()}
    if not session:
        return ForeignCode(sources)
    import cloudpickle

    try:
        return ForeignCode(sources, cloudpickle.dumps(session))
    except Exception as error:  # pickling may run any code of the object's
        names = ", ".join(name for things in session.values() for name in things)
        raise UserError(
            f"{names}: registered in this session, but cannot be sent to another process ({in_one_line(error)}): "
            "put it in a file and give FILE.py:NAME, or run without --jobs and --engine ray"
        ) from None


@functools.cache
def install(code: ForeignCode) -> None:
    """Make what another process of the same user sent known here, once; call it before anything that uses it."""
    _SOURCES.update(code.sources)
    _SENT_HERE.update(path for path, _ in code.sources)
    if not code.session:
        return
    try:  # what is unpickled comes from the process that began this one
        session = pickle.loads(code.session)
    except Exception as error:  # it may import and run any code of the user's
        raise UserError(f"what was registered in the session cannot be loaded here: {in_one_line(error)}") from None
    for kind, things in session.items():
        for name, thing in things.items():
            _REGISTRIES[kind].register(name, thing)


def _imported(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
