"""A digest of the code that something is made of, so that a result can be told from one of other code.

It is made of the definitions that can be reached: from a class or function of this package through every name that it
uses, as far as the rooms go in which results are made. Comments, docstrings, layout, the messages of errors and
whatever is not used do not count. Nothing is imported or run for it. Of a file of the user's, all definitions count,
and what they use of this package.
"""

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from protoreplay.core import registry

PACKAGE = "protoreplay"
_HOME = Path(__file__).parent.parent
FOLLOWED = tuple(f"{PACKAGE}.{room}" for room in ("methods", "encoders", "prototypes", "streams", "data", "core.rng"))
"""Modules, or rooms of them, in which results are made; what others do, such as showing progress, changes none."""

_WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)

Definition = tuple[str, str]
"""A module and a name in it."""


class _ModuleSource:
    """The definitions of a module, by name, and where the names come from that it imports."""

    def __init__(self, name: str, text: str) -> None:
        tree = ast.parse(text)
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports = dict(_imports(ast.Module(tree.body, [])))
        for statement in tree.body:
            for defined in _defined(statement):
                self.definitions.setdefault(defined, []).append(statement)
        self.name, self.body = name, tree.body


@functools.cache
def _module_source(name: str) -> _ModuleSource | None:
    """A module of this package, None where there is none of this name."""
    base = _HOME.joinpath(*name.split(".")[1:])
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return _ModuleSource(name, path.read_text(encoding="utf-8")) if path.exists() else None


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)]


def _imports(tree: ast.AST) -> Iterable[tuple[str, Definition]]:
    """By the name that code uses, the module and the name in it; those for a type checker alone are passed over."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from ((alias.asname or alias.name, (node.module or "", alias.name)) for alias in node.names)
        elif isinstance(node, _WITH_STATEMENTS) and not (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            yield from _imports(node)


def _used(module: _ModuleSource, nodes: Iterable[ast.AST]) -> Iterable[Definition]:
    """The definitions that code of a module names."""
    for node in nodes:
        imported = module.imports | dict(_imports(ast.Module([node], []) if isinstance(node, ast.stmt) else node))
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                yield imported.get(part.id, (module.name, part.id))
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in imported:
                yield ".".join(imported[part.value.id]), part.attr  # of a module that is imported by its name


def _is_registry(nodes: list[ast.stmt]) -> bool:
    """A table of everything there is: what a run takes from it is one entry, which is a root of its own."""
    value = getattr(nodes[0], "value", None)
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Registry"


def _dump(value: Any) -> str:
    """The same for any layout and in any version of Python: without places, docstrings and what is empty."""
    if isinstance(value, ast.Raise):
        value = ast.Raise(getattr(value.exc, "func", value.exc))  # what an error says changes no result
    if isinstance(value, ast.AST):
        fields = {name: inner for name, inner in ast.iter_fields(value) if name not in ("ctx", "kind", "type_comment")}
        if isinstance(fields.get("body"), list):
            body = [one for one in fields["body"] if not _is_text(one)]
            fields["body"] = body
        inner = ",".join(f"{name}={_dump(part)}" for name, part in fields.items() if part not in (None, []))
        return f"{type(value).__name__}({inner})"
    return f"[{','.join(map(_dump, value))}]" if isinstance(value, list) else repr(value)


def _is_text(statement: Any) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _reached(start: Iterable[Definition]) -> dict[Definition, list[ast.stmt]]:
    """All definitions of this package that are used, directly or not."""
    found: dict[Definition, list[ast.stmt]] = {}
    waiting = list(start)
    while waiting:
        place = waiting.pop()
        if place in found or not place[0].startswith(FOLLOWED):
            continue
        module = _module_source(place[0])
        if module is None:
            continue
        if place[1] in module.imports:  # handed on under the same name
            waiting.append(module.imports[place[1]])
        nodes = module.definitions.get(place[1], [])
        if nodes and not _is_registry(nodes):
            found[place] = nodes
            waiting += _used(module, nodes)
    return found


@functools.cache
def digest_of(roots: tuple[str, ...]) -> str | None:
    """The digest of what `roots` are made of, each a `MODULE:NAME` of this package or the path of a user's file.

    None where a file is not there any more, or there are no roots.
    """
    if not roots:
        return None
    start, texts = list[Definition](), list[str]()
    for root in roots:
        module, separator, name = root.rpartition(":")
        if separator and module.startswith(PACKAGE):
            start.append((module, name))
            continue
        try:
            foreign = _ModuleSource("", registry.source_text(root))
        except (OSError, UnicodeDecodeError, SyntaxError):
            return None
        texts.append(_dump(ast.Module(foreign.body, [])))
        start += _used(foreign, foreign.body)
    found = _reached(start)
    texts += [f"{place}{_dump(nodes)}" for place, nodes in sorted(found.items(), key=lambda item: item[0])]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def roots_of(thing: Any, name: str = "") -> tuple[str, ...]:
    """Where a class or a function comes from, for `digest_of`; `name` is what the user called it.

    None of it can be told of what was typed into a session, or comes from a package of somebody else's.
    """
    if registry.is_in_file(name):
        return (name.rpartition(":")[0],)
    module = getattr(thing, "__module__", None) or ""
    if not module.startswith(f"{PACKAGE}."):
        return ()
    if getattr(thing, "__name__", "") != "<lambda>":
        return (f"{module}:{thing.__qualname__.partition('.')[0]}",)
    return tuple(dict.fromkeys(_named_by(thing)))


def session_digest(thing: Any) -> str | None:
    """The digest of a class or a function of a session or of another package: its own text, and bases of this package.

    None if the text is not available.
    """
    try:
        text = textwrap.dedent(inspect.getsource(thing))
        dumped = _dump(ast.Module(ast.parse(text).body, []))
    except (OSError, TypeError, SyntaxError):
        return None
    bases = [base for base in getattr(thing, "__mro__", ()) if base.__module__.startswith(f"{PACKAGE}.")]
    below = digest_of(tuple(root for base in bases for root in roots_of(base)))
    return hashlib.sha256(f"{dumped}{below}".encode()).hexdigest()[:16]


def _named_by(function: Any) -> Iterable[str]:
    """Of a short function, what it calls: definitions of this package."""
    function = inspect.unwrap(function)
    names = function.__code__.co_names
    for name in names:
        thing = function.__globals__.get(name)
        if inspect.ismodule(thing):
            yield from (f"{thing.__name__}:{inner}" for inner in names if hasattr(thing, inner))
        elif getattr(thing, "__module__", "").startswith(PACKAGE):
            yield f"{thing.__module__}:{name}"


@functools.cache
def checked_out_commit() -> str:
    """The commit of the git checkout that this package is used from; empty where it is installed."""
    git = _HOME.parent.parent / ".git"
    try:
        if git.is_file():  # of a work tree
            git = Path(git.read_text().removeprefix("gitdir:").strip())
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        reference = head.removeprefix("ref:").strip()
        shared = git / (git / "commondir").read_text().strip() if (git / "commondir").exists() else git
        if (shared / reference).exists():
            return (shared / reference).read_text().strip()
        packed = (line.split() for line in (shared / "packed-refs").read_text().splitlines())
        return next((words[0] for words in packed if words[-1] == reference), "")
    except OSError:
        return ""
