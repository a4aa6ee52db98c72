"""mini-ImageNet: 100 classes of 600 photos, imported from a copy at hand and kept at 32 and at 84 pixels.

The usual layout: a folder `images` beside `train.csv`, `val.csv` and `test.csv` with the columns `filename,label`,
perhaps under one top folder. Those three cut the *classes* for few-shot learning; here all classes are learned, in
the order in which the three files bring them up, and each class has its own training and test images. Which is which
says a `split.csv` (`filename,label,role`), and without one the rule of the paper's code: the first fifth of a class,
120 of 600, in the order of the file, is for testing. Names of classes come from a `classes.csv` (`wnid,name`) if
there is one, and are the labels otherwise.

The layout of few-shot class-incremental learning, too: `train.csv` and `test.csv` (in `images`' folder or in one beside
it) that both have all classes, 500 images of each for training and 100 for testing.
"""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import torch
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.terminal import ItemProgress
from protoreplay.data import archives, pictures
from protoreplay.data.cache import DatasetContent, DatasetFile
from protoreplay.data.images import Dataset

FILE = DatasetFile("mini-imagenet", remedy="protoreplay data import mini-imagenet PATH")
SIZES = (32, 84)

_TABLES = ("train.csv", "val.csv", "test.csv")
_EXTRAS = ("split.csv", "classes.csv")
_MOST_TABLE_BYTES = 32 * 2**20
"""Of all tables together: those of 60,000 images have 3 million."""
_MOST_ROWS, _MOST_COLUMNS = 200_000, 100


class _Row(NamedTuple):
    """An image: its member of the archive, its label, whether it is for `train` or `test`."""

    member: str
    label: str
    role: str


def load(size: int = 32) -> Dataset:
    """The imported images at 32 or 84 pixels from the cache."""
    if size not in SIZES:
        raise UserError(f"size={size}: mini-imagenet is stored at {' and '.join(map(str, SIZES))} pixels")
    return FILE.dataset(size)


def load_nearest(size: int) -> Dataset:
    """The imported images at the smallest size that is not below `size`, or else at the largest."""
    return load(min((kept for kept in SIZES if kept >= size), default=max(SIZES)))


def import_copy(path: Path, progress: ItemProgress) -> None:
    """Decode the copy at `path`, a folder or an archive, into the cache; what is wrong with it is a `UserError`."""
    if not path.exists():
        raise UserError(f"{path} does not exist: give a folder, .tar, .tar.gz or .zip")
    rows, names = _read_tables(path)
    labels = list(dict.fromkeys(row.label for row in rows))
    with FILE.locked(progress.say) as work:
        progress.begin(f"{FILE.name}: {len(rows)} images", len(rows))
        tensors = _read_images(path, rows, labels, progress)
        classes = tuple(names.get(label, label) for label in labels)
        FILE.store(DatasetContent(tensors, classes, f"a copy, {path.resolve().name}"), work)


def _read_tables(path: Path) -> tuple[list[_Row], dict[str, str]]:
    """All images in order, and the names of the labels that have one."""
    tables: dict[str, bytes] = {}
    present = set()
    left = _MOST_TABLE_BYTES
    for member, content in archives.archive_members(path, _MOST_TABLE_BYTES):
        present.add(member)
        if PurePosixPath(member).name in _TABLES + _EXTRAS:
            tables[member] = content()
            left -= len(tables[member])
            if left < 0:
                raise UserError(f"{path} is refused: its tables have more than {_MOST_TABLE_BYTES // 2**20} MiB")
    roots = [PurePosixPath(member).parent for member in tables if PurePosixPath(member).name == _TABLES[0]]
    root = roots[0] if len(roots) == 1 else PurePosixPath("absent")

    def table(name: str, *columns: str) -> list[dict[str, str]]:
        return _parse(name, tables[str(root / name)], columns) if str(root / name) in tables else []

    by_table = {name: table(name, "filename", "label") for name in _TABLES}
    kinds = [{row["label"] for row in by_table[name]} for name in (_TABLES[0], _TABLES[2])]
    cuts_images = kinds[0] == kinds[1] != set()
    if any(not by_table[name] for name in _TABLES if not (cuts_images and name == "val.csv")):
        raise UserError(f"{path} is not mini-imagenet: train.csv, val.csv and test.csv are not in one folder")
    images = [row for rows in by_table.values() for row in rows]
    first = PurePosixPath("images") / images[0]["filename"]
    folder = next((place for place in (root, root.parent) if str(place / first) in present), root)
    members = [str(folder / "images" / row["filename"]) for row in images]
    if missing := next((member for member in members if member not in present), None):
        raise UserError(f"{path} is incomplete: its tables list {missing}, which does not exist")
    if len(set(members)) < len(members):
        raise UserError(f"{path}: its tables list {Counter(members).most_common(1)[0][0]} twice")
    split = table("split.csv", "filename", "role")
    if cuts_images and not split:
        split = [
            {**row, "role": "test" if name == "test.csv" else "train"} for name in _TABLES for row in by_table[name]
        ]
    roles = _roles(images, split)
    rows = [_Row(member, row["label"], role) for member, row, role in zip(members, images, roles, strict=True)]
    names = {row["wnid"]: row["name"] for row in table("classes.csv", "wnid", "name")}
    return rows, names if len(set(names.values())) == len(names) else {}


def _parse(name: str, content: bytes, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a table, of which these columns are kept."""
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig")))
        header = next(lines, [])
        if len(header) > _MOST_COLUMNS:
            raise UserError(f"{name} has more than {_MOST_COLUMNS} columns")
        filled = itertools.islice(filter(None, lines), _MOST_ROWS + 1)
        rows = [dict(zip(header, line, strict=False)) for line in filled]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{name} is not a table ({error})") from None
    if len(rows) > _MOST_ROWS:
        raise UserError(f"{name} has more than {_MOST_ROWS:,} rows")
    if not rows or any(not row.get(column) for row in rows for column in columns):
        raise UserError(f"{name} needs a header line with {','.join(columns)} and a value in every column")
    return [{column: row[column] for column in columns} for row in rows]


def _roles(images: list[dict[str, str]], split: list[dict[str, str]]) -> list[str]:
    """For each image `train` or `test`; a class must have both."""
    given = {row["filename"]: row["role"] for row in split}
    sizes = Counter(row["label"] for row in images)
    seen: Counter[str] = Counter()
    roles = []
    for row in images:
        role = "test" if seen[row["label"]] < sizes[row["label"]] // 5 else "train"
        seen[row["label"]] += 1
        roles.append(given.get(row["filename"], "") if given else role)
        if roles[-1] not in ("train", "test"):
            raise UserError(f"split.csv: the role of {row['filename']} must be train or test, not '{roles[-1]}'")
    both = {(row["label"], role) for row, role in zip(images, roles, strict=True)}
    if lacking := [(label, role) for label in sizes for role in ("train", "test") if (label, role) not in both]:
        raise UserError(f"class {lacking[0][0]} has no {lacking[0][1]} image: give at least 5 images, or a split.csv")
    return roles


def _read_images(path: Path, rows: list[_Row], labels: list[str], progress: ItemProgress) -> dict[str, Tensor]:
    """Images straight into their place: at full size there is no room in memory for two copies."""
    ordered = sorted(rows, key=lambda row: row.role == "test")
    places = {row.member: index for index, row in enumerate(ordered)}
    number = {label: index for index, label in enumerate(labels)}
    tensors = {
        f"{part}_labels": torch.tensor([number[row.label] for row in rows if row.role == part])
        for part in ("train", "test")
    }
    names = "\n".join(PurePosixPath(row.member).name for row in ordered)
    tensors["all_files"] = torch.frombuffer(bytearray(names.encode()), dtype=torch.uint8)
    for size in SIZES:
        tensors[f"all_images_{size}"] = torch.empty(len(rows), 3, size, size, dtype=torch.uint8)

    def place(item: tuple[str, bytes]) -> None:
        member, content = item
        try:
            for size, image in zip(SIZES, pictures.decode_picture(io.BytesIO(content), *SIZES), strict=True):
                tensors[f"all_images_{size}"].numpy()[places[member]] = image
        except UserError as error:
            raise UserError(f"{path}: {member}: {error}") from None

    pictures.map_in_threads(place, _contents(path, places), progress.advance, lambda item: len(item[1]))
    return tensors


def _contents(path: Path, wanted: Mapping[str, object]) -> Iterator[tuple[str, bytes]]:
    for member, content in archives.archive_members(path):
        if member in wanted:
            yield member, content()
