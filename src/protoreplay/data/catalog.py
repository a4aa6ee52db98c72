"""The datasets by name, and what can be done with each: got, imported, verified."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.core.item_progress import ItemProgress
from protoreplay.data import cifar10, digits, mini_imagenet, mnist
from protoreplay.data.cache import CacheFile, Content
from protoreplay.data.images import Dataset
from protoreplay.data.sources import Source


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset.

    Attributes:
        name: as given on the command line.
        summary: one line.
        load: opens it.
        file: its place in the cache; none where it needs no file.
        classes: the class names of what `sources` give.
        sources: where it can be got, in the order in which they are tried.
        import_from: reads a copy at hand into the cache.
    """

    name: str
    summary: str
    load: Callable[[], Dataset]
    file: CacheFile | None = None
    classes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    import_from: Callable[[Path, ItemProgress], None] | None = None


CATALOG: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        DatasetEntry("digits", "1,797 handwritten digits, 8x8, inside scikit-learn", digits.load),
        DatasetEntry(
            "mnist", "70,000 handwritten digits, 28x28", mnist.load, mnist.FILE, mnist.CLASSES, sources=mnist.SOURCES
        ),
        DatasetEntry(
            "cifar10",
            "60,000 photos of 10 classes, 32x32",
            cifar10.load,
            cifar10.FILE,
            cifar10.CLASSES,
            sources=cifar10.SOURCES,
        ),
        DatasetEntry(
            "mini-imagenet",
            "photos of 100 classes, at 32x32 and 84x84",
            mini_imagenet.load,
            mini_imagenet.FILE,
            import_from=mini_imagenet.import_from,
        ),
    )
}


def entry(name: str) -> DatasetEntry:
    """The dataset called `name`, or a `UserError` that lists them."""
    if name not in CATALOG:
        raise unknown_name("dataset", name, CATALOG)
    return CATALOG[name]


def cache_file(name: str) -> CacheFile:
    """The place of the dataset called `name`; a `UserError` if it needs none."""
    if (file := entry(name).file) is None:
        raise UserError(f"{name} needs no file: {entry(name).summary}")
    return file


def get(name: str, progress: ItemProgress | None = None, sources: tuple[Source, ...] | None = None) -> Path:
    """Put a dataset into the cache, from the first of its sources that gives its published content.

    What is there already is checked, and replaced if it is damaged. Returns the path of the file.
    """
    file, chosen, progress = cache_file(name), entry(name), progress or ItemProgress()
    sources = chosen.sources if sources is None else sources
    if not sources:
        raise UserError(f"{name} cannot be downloaded: `{file.remedy}` takes a copy you have")
    with file.locked(progress.say) as work:
        if file.path.exists():
            try:
                file.verify()
            except UserError as error:
                progress.say(str(error))
            else:
                progress.say(f"{name} is already there, and whole")
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
                file.store(Content(tensors, chosen.classes, source.name), work)
                return file.path
    raise UserError(f"{name} could not be got ({'; '.join(failures)}): try again with a network, or install npm")


def import_from(name: str, path: Path, progress: ItemProgress | None = None) -> Path:
    """Put the copy of a dataset at `path` into the cache, in place of what is there. Returns the path of the file."""
    file, chosen = cache_file(name), entry(name)
    if chosen.import_from is None:
        raise UserError(f"{name} is not imported: `{file.remedy}` downloads it")
    chosen.import_from(path, progress or ItemProgress())
    return file.path
