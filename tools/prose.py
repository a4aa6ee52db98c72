"""Check the sentences that people read: spelling by codespell, and the phrases that docs/style.md refuses.

python tools/prose.py

Read are README.md, CHANGELOG.md, CONTRIBUTING.md, the other guides at the top, docs/, the strings of src/ (help texts,
messages, docstrings) and the served page.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUIDE = Path("docs/style.md")
GENERATED = ("docs/paper/", "docs/results.md")
"""Files that tools write from numbers."""


def refused_phrases(guide: str) -> list[str]:
    """The phrases in the bullet list of the guide's last section."""
    return re.findall(r"`([^`]+)`", guide.partition("## Phrases")[2].partition("\n- ")[2])


def texts() -> Iterator[tuple[str, int, str]]:
    """Path, line and text of all that is read: paragraphs of pages, strings of modules."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.html")]
    for path in sorted(pages):
        name = path.relative_to(ROOT).as_posix()
        if name != GUIDE.as_posix() and not name.startswith(GENERATED):
            yield name, 1, path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(ROOT).as_posix(), node.lineno, node.value


def found_phrases(text: str, phrases: list[str]) -> Iterator[tuple[int, str]]:
    """Line within the text, and phrase; breaks of lines and capitals do not matter."""
    for phrase in phrases:
        words = r"\s+".join(map(re.escape, phrase.split()))
        for found in re.finditer(rf"\b{words}\b", text, re.IGNORECASE):
            yield text[: found.start()].count("\n"), phrase


def problems() -> list[str]:
    """One line for each refused phrase."""
    phrases = refused_phrases((ROOT / GUIDE).read_text(encoding="utf-8"))
    return [
        f"{name}:{line + offset}: '{phrase}' ({GUIDE} says what to write)"
        for name, line, text in texts()
        for offset, phrase in found_phrases(text, phrases)
    ]


def main() -> int:
    found = problems()
    print(*found, sep="\n", end="\n" if found else "")
    spelling = subprocess.run([sys.executable, "-m", "codespell_lib"], cwd=ROOT, check=False)
    return int(bool(found) or spelling.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
