"""Text in columns, for terminals and logs.

Written by hand, although rich, which is installed, has tables: those are cut or wrapped to the terminal's width (80
columns in a pipe) unless a width is invented for them, read `[red]` in the name of a class as markup, and end lines in
blanks. They also cost 0.1 s of import, as much as half of `protoreplay --help`, and 1.3 ms a row against 0.01 ms here.
"""

from collections.abc import Sequence


def align_columns(rows: Sequence[Sequence[str]], words: int | None = None, rule: bool = False) -> list[str]:
    """One line a row, its cells as wide as the widest of their column, two blanks between them, none at the end.

    Args:
        rows: cells, the same number in each row.
        words: how many columns stand to the left; those after them, numbers, stand to the right. All if left out.
        rule: whether a line of dashes follows the first row.

    Examples:
        >>> print("\\n".join(align_columns([("method", "avg"), ("sgd", "9.5")], words=1, rule=True)))
        method  avg
        ------  ---
        sgd     9.5
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [*rows[:1], ["-" * width for width in widths], *rows[1:]] if rule else rows
    left = len(widths) if words is None else words
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
