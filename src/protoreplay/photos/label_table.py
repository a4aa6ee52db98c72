"""Photos and their classes in a CSV file, instead of folders."""

import csv
from pathlib import Path

from protoreplay.core.errors import UserError

PATH_NAMES, CLASS_NAMES = ("path", "photo", "file", "filename"), ("class", "label")
"""What the two columns may be called in the first line; without such a line they are the first two."""


def photos_by_label(table: Path, folder: Path | None = None) -> dict[str, list[Path]]:
    """Photos by class, in the order of the table; paths are from `folder`, or from where the table is.

    Every line has a path and a class. A photo that is listed twice for a class counts once, as `learn` counts it.
    """
    start = folder or table.parent
    found: dict[str, list[Path]] = {}
    place, label = 0, 1
    for number, row in _rows(table):
        if number == 1 and (columns := _columns(row)):
            place, label = columns
            continue
        if len(row) <= max(place, label) or not row[place].strip() or not row[label].strip():
            raise UserError(f"{table}, line {number}: give a path and a class, such as walk/1.jpg,crow")
        found.setdefault(row[label].strip(), []).append(start / row[place].strip())
    if not found:
        raise UserError(f"{table} has no photos: give lines with a path and a class, such as walk/1.jpg,crow")
    return found


def _rows(table: Path) -> list[tuple[int, list[str]]]:
    """Of each line that is not empty its number and its values."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            return [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except OSError as error:
        raise UserError(f"{table}: {error.strerror}: give a CSV file of paths and classes") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{table} is no CSV file of UTF-8 text ({error})") from None


def _columns(first: list[str]) -> tuple[int, int] | None:
    """Where the path and the class stand, if the first line names both."""
    names = [name.strip().lower() for name in first]
    places = [next((names.index(name) for name in some if name in names), None) for some in (PATH_NAMES, CLASS_NAMES)]
    return (places[0], places[1]) if places[0] is not None and places[1] is not None else None
