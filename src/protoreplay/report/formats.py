"""One table, as text, Markdown, CSV, JSON or LaTeX."""

import csv
import io
import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from protoreplay.core.columns import align_columns

MARK, BEST = "*", "^"
BEST_LEGEND = "Bold: the best of each column."
"""In text, which has no bold, the sign `BEST` stands for it."""
ABSENT = "\N{EN DASH}"
"""In place of what was not measured."""
WIDEST = 44
"""Longer words are wrapped in text."""


class Cell(NamedTuple):
    """What stands in one place: a text, a mark behind it, whether it stands out, whether it comes second."""

    text: str
    mark: bool = False
    strong: bool = False
    second: bool = False


@dataclass(frozen=True)
class Table:
    """For people `header` and `body`, for programs `records`.

    Attributes:
        header: of the columns.
        body: one list of cells a line.
        words: how many columns hold words; these come first and stand to the left, numbers to the right.
        records: the same lines in full, with equal keys.
        note: what the marks mean; empty where there is nothing to say.
        best: whether what stands out in a column of numbers is the best of it.
    """

    header: list[str]
    body: list[list[Cell]]
    words: int
    records: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    best: bool = False

    def marked(self, column: int) -> bool:
        """Whether a column has marks."""
        return any(line[column].mark for line in self.body)


def table_as_text(table: Table) -> str:
    """Aligned columns; long words go on in the next line, and the note stands below."""
    lines: list[list[str]] = []
    # Blanks in place of signs keep the numbers of a column aligned.
    signs = [
        max([len(_signs(table, line[column])) for line in table.body], default=0) for column in range(len(table.header))
    ]
    for line in [[Cell(name) for name in table.header], *table.body]:
        wrapped = [textwrap.wrap(cell.text, WIDEST) or [""] for cell in line[: table.words]]
        numbers = [
            cell.text + _signs(table, cell).ljust(signs[column])
            for column, cell in enumerate(line[table.words :], start=table.words)
        ]
        for part in range(max([len(words) for words in wrapped], default=1)):
            heads = [words[part] if part < len(words) else "" for words in wrapped]
            lines.append([*heads, *(numbers if part == 0 else [""] * len(numbers))])
    printed = align_columns(lines, table.words, rule=True)
    return "\n".join([*printed, *textwrap.wrap(table.note.replace("Bold:", f"{BEST}:"), 100)])


def _signs(table: Table, cell: Cell) -> str:
    found = (BEST if table.best and cell.strong else "") + (MARK if cell.mark else "")
    return f" {found}" if found else ""


def table_as_markdown(table: Table) -> str:
    """A Markdown table, and the note below it."""
    rule = ["---" if column < table.words else "---:" for column in range(len(table.header))]
    body = [[_emphasised(cell) for cell in line] for line in table.body]
    lines = [f"| {' | '.join(line)} |" for line in [table.header, rule, *body]]
    return "\n".join([*lines, *(["", table.note.replace(MARK, rf"\{MARK}")] if table.note else [])])


def _emphasised(cell: Cell) -> str:
    text = cell.text.replace("|", r"\|")
    return (f"**{text}**" if cell.strong else text) + (rf" \{MARK}" if cell.mark else "")


def table_as_csv(table: Table) -> str:
    """One line a record."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table.records[0]) if table.records else table.header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.records)
    return text.getvalue().rstrip("\n")


def table_as_json(table: Table) -> str:
    """A list of the records."""
    return json.dumps(table.records, indent=2)


def table_as_latex(table: Table) -> str:
    """A `tabular` in the manner of booktabs, the note below it."""
    columns = "".join("l" if column < table.words else "r" for column in range(len(table.header)))
    body = []
    for line in table.body:
        cells = []
        for column, cell in enumerate(line):
            style = r"\textbf" if cell.strong else r"\underline" if cell.second else ""
            text = f"{style}{{{_latex(cell.text)}}}" if style else _latex(cell.text)
            mark = "$^{*}$" if cell.mark else r"\phantom{$^{*}$}" if table.marked(column) else ""
            cells.append(text + mark)
        body.append(cells)
    note = table.note
    if any(cell.second for line in table.body for cell in line):
        note = note.replace(BEST_LEGEND, f"{BEST_LEGEND} Underlined: the second.")
    lines = [f"{' & '.join(line)} \\\\" for line in [[_latex(name) for name in table.header], *body]]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            *([r"\par\smallskip", rf"\footnotesize {_latex(note)}"] if note else []),
        ]
    )


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "\N{DAGGER}": r"\dag{}",
    ABSENT: "--",
    "…": r"\ldots{}",
}


def _latex(text: str) -> str:
    escaped = re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)
    escaped = re.sub(r"`([^`]+)`", r"\\texttt{\1}", escaped)
    return re.sub(r"(?<![\w$])-(?=\d)", "$-$", escaped)


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": table_as_text,
    "md": table_as_markdown,
    "csv": table_as_csv,
    "json": table_as_json,
    "latex": table_as_latex,
}
