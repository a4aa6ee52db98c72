"""The source of the package as the tests here read it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "protoreplay"


class Named(NamedTuple):
    """A module, or a class or function at the top of one, and the module's path inside the package."""

    name: str
    module: str


def modules() -> Iterator[tuple[str, str]]:
    """The path inside the package and the text of each."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text()


def top_names() -> Iterator[Named]:
    """Every module, and every class and function at the top of one, private ones too.

    A module that is named after something it holds does not count beside it: `whitening` in `whitening.py` is one
    thing. `__init__` and the like are the language's names.
    """
    for path, text in modules():
        tops = ast.parse(text).body
        named = {top.name for top in tops if isinstance(top, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
        for name in named | {Path(path).stem}:
            if not name.startswith("__"):
                yield Named(name, path)


def functions(text: str) -> Iterator[tuple[str, int]]:
    """The name of every function, methods and inner ones too, and its lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1
