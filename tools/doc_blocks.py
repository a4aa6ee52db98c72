"""The blocks of code on a page, and what they print.

    python tools/doc_blocks.py docs/start-research.md ...

runs every block of these pages in order, as a reader would, in a folder of its own, and writes what was printed into
the `text` block that follows. Commands stand in `sh` blocks, Python in `python` blocks; one with a title is an excerpt
of the file it names. A block whose first line says NOT_RUN is passed over, here and in the tests.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from protoreplay.core.files import write_whole

ROOT = Path(__file__).parent.parent
NOT_RUN = "# not run by the tests: "
FENCE = re.compile(r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PICTURES = {"start-research.md": {"stream.png": "stream.png", "figures/split-digits-accuracy.png": "curves.png"}}
"""By page, what its commands draw, and the names under which these are kept in docs/start/."""


MARK = "-- from here on --"


class Block(NamedTuple):
    """A fenced block: its language, the file it is an excerpt of (or nothing), its text, and where the text stands."""

    language: str
    excerpt_of: str
    text: str
    start: int
    end: int

    @property
    def is_run(self) -> bool:
        return self.language in ("sh", "python") and not self.excerpt_of and not self.text.startswith(NOT_RUN)

    def commands(self) -> list[str]:
        """The lines of a `sh` block without comments."""
        lines = [line.partition(" #")[0].strip() for line in self.text.splitlines()]
        return [line for line in lines if line and not line.startswith("#")]


def pages() -> list[Path]:
    """All that is shown to readers."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    return [Block(found[1], found[2] or "", found[3], *found.span(3)) for found in FENCE.finditer(text)]


def printed(block: Block, namespace: str, folder: Path) -> tuple[str, str]:
    """What a block prints, and the Python that is in force after it: later blocks of a page go on from earlier ones."""
    if block.language == "sh":
        command = ["bash", "-ec", block.text]
    else:
        command = [sys.executable, "-c", namespace + f"\nprint({MARK!r})\n" + block.text]
        namespace += "\n" + block.text
    output = subprocess.run(command, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout
    return output.rpartition(f"{MARK}\n")[2], namespace


def refresh(path: Path) -> None:
    text, namespace, output = path.read_text(), "", None
    with tempfile.TemporaryDirectory() as place:
        folder, changes = Path(place), []
        for block in blocks(text):
            if block.is_run:
                output, namespace = printed(block, namespace, folder)
            elif block.language == "text" and output is not None:
                changes.append((block, output))
                output = None
        for source, target in PICTURES.get(path.name, {}).items():
            shutil.copyfile(folder / source, ROOT / "docs" / "start" / target)
    for block, found in reversed(changes):
        lines = "".join(f"{line.rstrip()}\n" for line in found.strip("\n").splitlines())
        text = text[: block.start] + lines + text[block.end :]
    write_whole(path, text.encode())


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        refresh(Path(argument))
