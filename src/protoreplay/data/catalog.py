"""The datasets by name, and what can be done with each: got, imported, verified."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protoreplay.core.errors import UserError, in_one_line
from protoreplay.core.registry import Registry, is_in_file
from protoreplay.core.terminal import ItemProgress
from protoreplay.data import cifar10, cifar100, digits, fashion_mnist, mini_imagenet, mnist, photo_folder
from protoreplay.data.cache import DatasetContent, DatasetFile
from protoreplay.data.images import Dataset
from protoreplay.data.sources import DownloadSource


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset.

    Attributes:
        name: as given on the command line.
        summary: one line.
        load: opens it; of images kept at several sizes, those nearest above the given side in pixels.
        file: its place in the cache; none where it needs no file.
        classes: the class names of what `sources` give.
        sources: places to download it from, in the order in which they are tried.
        import_copy: imports the user's own copy into the cache.
        system_copy: a folder of a system package, from which the first of `sources` reads.
    """

    name: str
    summary: str
    load: Callable[[int], Dataset]
    file: DatasetFile | None = None
    classes: tuple[str, ...] = ()
    sources: tuple[DownloadSource, ...] = ()
    import_copy: Callable[[Path, ItemProgress], None] | None = None
    system_copy: Path | None = None

    @property
    def is_here(self) -> bool:
        """Whether it can be opened now: it needs no file, has one, or a package of the system has it."""
        return self.file is None or self.file.path.exists() or self.is_in_system

    @property
    def is_in_system(self) -> bool:
        """Whether a package of the system has it."""
        return self.system_copy is not None and self.system_copy.is_dir()

    def fill_cache(self) -> None:
        """Put what a package of the system has into the cache, unless it is there; nothing else is got unasked."""
        if self.file is not None and not self.file.path.exists() and self.is_in_system:
            download_dataset(self.name, sources=self.sources[:1])


def _as_dataset_entry(thing: Any, name: str) -> DatasetEntry:
    """A dataset, or a function without arguments that gives one, becomes an entry."""
    if isinstance(thing, Dataset):
        return DatasetEntry(name, thing.name, lambda size: thing)
    if isinstance(thing, DatasetEntry):
        return thing
    if not callable(thing):
        raise UserError(
            f"{name} is not a dataset: give a protoreplay.data.images.Dataset or a function that returns one"
        )
    made = functools.cache(lambda: _made(thing, name))
    return DatasetEntry(name, " ".join((thing.__doc__ or name).split()), lambda size: made())


def _made(make: Callable[[], Any], name: str) -> Dataset:
    try:
        dataset = make()
    except UserError:
        raise
    except Exception as error:  # a function of the user's may raise anything
        raise UserError(f"dataset {name} cannot be loaded: {in_one_line(error)}") from error
    if not isinstance(dataset, Dataset):
        raise UserError(f"{name} returns a {type(dataset).__name__}, not a protoreplay.data.images.Dataset")
    return dataset


_OWN = (
    DatasetEntry("digits", "1,797 handwritten digits, 8x8, inside scikit-learn", lambda size: digits.load()),
    DatasetEntry(
        "mnist",
        "70,000 handwritten digits, 28x28",
        lambda size: mnist.load(),
        mnist.FILE,
        mnist.CLASSES,
        sources=mnist.SOURCES,
    ),
    DatasetEntry(
        "fashion-mnist",
        "70,000 photos of 10 kinds of clothes, 28x28",
        lambda size: _filled_file("fashion-mnist").dataset(),
        fashion_mnist.FILE,
        fashion_mnist.CLASSES,
        sources=fashion_mnist.SOURCES,
        system_copy=fashion_mnist.SYSTEM_COPY,
    ),
    DatasetEntry(
        "cifar10",
        "60,000 photos of 10 classes, 32x32",
        lambda size: cifar10.load(),
        cifar10.FILE,
        cifar10.CLASSES,
        sources=cifar10.SOURCES,
    ),
    DatasetEntry(
        "cifar100",
        "60,000 photos of 100 classes, 32x32",
        lambda size: cifar100.load(),
        cifar100.FILE,
        cifar100.CLASSES,
        sources=cifar100.SOURCES,
        import_copy=cifar100.import_archive,
    ),
    DatasetEntry(
        "mini-imagenet",
        "photos of 100 classes, at 32x32 and 84x84",
        mini_imagenet.load_nearest,
        mini_imagenet.FILE,
        import_copy=mini_imagenet.import_copy,
    ),
)
DATASETS: Registry[DatasetEntry] = Registry(
    "dataset", {entry.name: entry for entry in _OWN}, _as_dataset_entry, ("FOLDER",)
)


def dataset_entry(name: str) -> DatasetEntry:
    """The dataset called `name`, or that of a folder of photos, which is not opened yet."""
    if name in DATASETS or is_in_file(name):
        return DATASETS.get(name)
    # Photos take long to decode, and unreadable ones are reported: once for all runs of a grid.
    return DatasetEntry(
        name, f"the photos in {name}", functools.cache(lambda size: photo_folder.load(Path(name), size))
    )


def dataset_file(name: str) -> DatasetFile:
    """The place of the dataset called `name`; a `UserError` if it needs none."""
    if (file := DATASETS.get(name).file) is None:
        raise UserError(f"{name} needs no download: {DATASETS.get(name).summary}")
    return file


def _filled_file(name: str) -> DatasetFile:
    DATASETS.get(name).fill_cache()
    return dataset_file(name)


def download_dataset(
    name: str, progress: ItemProgress | None = None, sources: tuple[DownloadSource, ...] | None = None
) -> Path:
    """Put a dataset into the cache, from the first of its sources that gives its published content.

    What is there already is checked, and replaced if it is damaged. Returns the path of the file.
    """
    file, chosen, progress = dataset_file(name), DATASETS.get(name), progress or ItemProgress()
    sources = chosen.sources if sources is None else sources
    if not sources:
        raise UserError(f"{name} cannot be downloaded: import your own copy with `{file.remedy}`")
    with file.locked(progress.say) as work:
        if file.path.exists():
            try:
                file.verify()
            except UserError as error:
                progress.say(str(error))
            else:
                progress.say(f"{name} is in the cache already and intact")
                return file.path
        failures = []
        for number, source in enumerate(sources):
            place = work / str(number)
            place.mkdir()
            try:
                tensors = source.fetch(place, progress)
            except (UserError, ValueError, TypeError) as error:
                failures.append(f"{source.name}: {error}")
                progress.say(failures[-1])
            else:
                file.store(DatasetContent(tensors, chosen.classes, source.name), work)
                return file.path
    others = ["install npm"] if any("npm" in source.name for source in sources) else []
    others += [f"`protoreplay data import {name} PATH` a copy"] if chosen.import_copy else []
    remedies = ", or ".join(["check the network connection", *others])
    raise UserError(f"download of {name} failed ({'; '.join(failures)}): {remedies}")


def import_dataset(name: str, path: Path, progress: ItemProgress | None = None) -> Path:
    """Put the copy of a dataset at `path` into the cache, in place of what is there. Returns the path of the file."""
    file, chosen = dataset_file(name), DATASETS.get(name)
    if chosen.import_copy is None:
        raise UserError(f"{name} is not imported: `{file.remedy}` downloads it")
    chosen.import_copy(path, progress or ItemProgress())
    return file.path
