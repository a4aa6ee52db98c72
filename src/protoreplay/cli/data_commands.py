"""The commands about data: each calls the library and prints; heavy parts are imported when needed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.printing import print_columns
from protoreplay.core.errors import UserError

if TYPE_CHECKING:
    from protoreplay.data.catalog import DatasetEntry

data_app = typer.Typer()
datasets_app = typer.Typer(no_args_is_help=True, help="Download, import, list and verify datasets.")
data_app.add_typer(datasets_app, name="data")

DatasetName = Annotated[str, typer.Argument(metavar="NAME", help="Dataset to use; `protoreplay data ls` lists them.")]


@datasets_app.command("ls")
def ls_command() -> None:
    """List the datasets, with their state on this machine."""
    from protoreplay.core.places import data_folder
    from protoreplay.data.catalog import DATASETS

    print_columns([(entry.name, entry.summary, _state(entry)) for entry in DATASETS.values()])
    print(f"in {data_folder()}")
    _print_features()


@datasets_app.command("get")
def get_command(name: DatasetName) -> None:
    """Download a dataset into the cache and verify it. A cached dataset is only verified."""
    from protoreplay.core.terminal import item_progress
    from protoreplay.data import catalog

    with item_progress() as progress:
        path = catalog.download_dataset(name, progress)
    print(path)


@datasets_app.command("import")
def import_command(
    name: DatasetName,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder, .tar, .tar.gz or .zip file.")],
) -> None:
    """Import your own copy of a dataset into the cache."""
    from protoreplay.core.terminal import item_progress
    from protoreplay.data import catalog

    with item_progress() as progress:
        stored = catalog.import_dataset(name, path, progress)
    print(stored)


@datasets_app.command("verify")
def verify_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Dataset to verify.", show_default="all in the cache")
    ] = None,
) -> None:
    """Read a cached dataset again and compare its checksums."""
    from protoreplay.data import catalog

    names = [name] if name else [e.name for e in catalog.DATASETS.values() if e.file and e.file.path.exists()]
    problems = []
    for each in names:
        try:
            catalog.dataset_file(each).verify()
            print(f"{each}: intact")
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("; ".join(problems))


@datasets_app.command("path")
def path_command(name: DatasetName) -> None:
    """Print the path of a dataset's file."""
    from protoreplay.data import catalog

    catalog.DATASETS.get(name).fill_cache()
    file = catalog.dataset_file(name)
    file.read()
    print(file.path)


def _print_features() -> None:
    """What `--encoder` has cached, and its limit."""
    from protoreplay.encoders.feature_store import LIMIT, features_folder, stored_features

    if not (stored := stored_features()):
        return
    print_columns(
        [
            (f"features of {one.encoder}", one.fingerprint[:8], f"{one.images:,} images", f"{one.bytes / 1e6:.1f} MB")
            for one in stored
        ]
    )
    print(f"in {features_folder()}; limited to {LIMIT / 1e9:g} GB, the least recently used are deleted first")


def _state(entry: "DatasetEntry") -> str:
    if entry.file is None:
        return "always available"
    if not entry.file.path.exists():
        return f"here, in {entry.system_copy}" if entry.is_in_system else f"not here: {entry.file.remedy}"
    try:
        content = entry.file.read()
    except UserError as error:
        return str(error)
    return f"{entry.file.path.stat().st_size / 1e6:.0f} MB from {content.source}"
