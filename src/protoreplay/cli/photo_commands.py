"""The commands of the photo classifier: each calls the library and prints; heavy parts are imported when needed."""

import itertools
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.interruption import CONTINUES, STARTS_OVER, on_interrupt
from protoreplay.core.errors import UserError, print_to_stderr
from protoreplay.core.words import counted

if TYPE_CHECKING:
    from protoreplay.core.terminal import ItemProgress
    from protoreplay.photos.classifier import Classifier
    from protoreplay.photos.teaching import TeachingReport
    from protoreplay.photos.zipped_photos import ZippedPhoto

photos_app = typer.Typer()

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="The model's file.")]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="lite0 (fast), lite1, lite2, timm:NAME or a file .onnx.",
        show_default="the model's; lite2 for a new one",
    ),
]
Unknown = Annotated[
    float | None,
    typer.Option(
        help="Share of photos of known classes that may be answered 'I do not know'; 0 never.", min=0, max=0.5
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Take names that differ in case, spaces or accents alone for two classes.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither look up nor remember features of photos.")]


@photos_app.command("learn")
def learn_photos(
    path: ModelFile,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="A sub-folder of photos per class, or a zip file of such folders."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Paths and classes, instead of a sub-folder per class.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--class", metavar="NAME", help="FOLDER has the photos of this one class.")
    ] = None,
    encoder: EncoderName = None,
    unknown: Unknown = None,
    keep: Annotated[int | None, typer.Option(help="Thumbnails to keep of each class.", min=0, max=1000)] = None,
    yes: Yes = False,
    no_cache: NoCache = False,
) -> None:
    """Teach the photos of a folder: new classes are added, known ones refined. MODEL is made if it is not there."""
    from protoreplay.photos import model_file, photo_paths

    model_file.check_place(path)
    remembered = "" if no_cache else ", but knows the photos that were looked at"
    on_interrupt(f"{path} is as it was, and the same command starts over{remembered}")
    photos = photo_paths.photos_to_learn(folder, labels, only, print_to_stderr)
    classifier = open_classifier(path, encoder, not no_cache)
    _ask_about_names(photos, classifier.classes, yes)
    classifier.configure(unknown, keep)
    total = sum(map(len, photos.values()))
    with _photos_done(total) as (progress, tell):
        prepared = classifier.prepare(photos, tell)
        with model_file.model_lock(path, progress.say):
            if path.exists():  # somebody else may have taught it in the meantime
                classifier.replace(model_file.read_state(path))
                classifier.configure(unknown, keep)
            report = classifier.learn_prepared(prepared)
            classifier.save(path)
    _print_report(report)
    print(f"{path}: {counted(len(classifier), 'class', 'classes')}, {path.stat().st_size / 1e6:.1f} MB")


@photos_app.command("predict")
def predict_photos(
    path: ModelFile,
    photos: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Photos, or folders or zip files of them.")
    ] = None,
    listed: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="Paths of photos, one a line; - is standard input.")
    ] = None,
    format: Annotated[str, typer.Option(metavar="text|csv|json", help="json is one object a line.")] = "text",
    unknown: Unknown = None,
    encoder: EncoderName = None,
    work: Annotated[
        Path | None, typer.Option(help="A folder for finished answers: the same command continues after a kill.")
    ] = None,
    engine: Annotated[str, typer.Option(metavar="local|ray", help="Where to run; ray needs --work.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster; one is started here if left out.")] = None,
    write_xmp: Annotated[
        bool, typer.Option("--write-xmp", help="Also put each class into the photo's sidecar, as a keyword.")
    ] = False,
    no_cache: NoCache = False,
) -> None:
    """Say what each photo shows, or "I do not know"; answers come as they are found, in order."""
    from protoreplay.core.errors import unknown_name
    from protoreplay.photos import answer_formats, photo_paths

    if format not in answer_formats.ANSWER_FORMATS:
        raise unknown_name("format", format, answer_formats.ANSWER_FORMATS)
    if engine not in ("local", "ray"):
        raise unknown_name("engine", engine, ["local", "ray"])
    if engine == "ray" and not work:
        raise UserError("--engine ray needs --work DIR, a folder that all machines of the cluster see")
    if write_xmp and work:
        raise UserError("--write-xmp and --work: give one of the two")
    if not photos and not listed:
        raise UserError("give photos, folders, or --list FILE")
    classifier = open_classifier(path, encoder, not no_cache, must_exist=True)
    classifier.configure(unknown)
    on_interrupt(CONTINUES if work else "nothing was changed; the same command starts over, and --work DIR continues")

    def everything() -> "Iterator[Path | ZippedPhoto]":
        lines = photo_paths.paths_in_list(listed) if listed else []
        return photo_paths.walk_photos(itertools.chain(photos or [], lines))

    if format in answer_formats.ANSWER_HEADERS:
        _print(answer_formats.ANSWER_HEADERS[format])
    if work:
        _bulk(classifier, everything(), work, format, engine, address)
    else:
        # Answers on the terminal show how far they are; where they go elsewhere, a bar does.
        counting = not sys.stdout.isatty() and sys.stderr.isatty() and str(listed) != "-"
        total = sum(1 for _ in everything()) if counting else 0
        _stream(classifier, everything(), answer_formats.ANSWER_FORMATS[format], total, write_xmp)


@photos_app.command("show")
def show_model(
    path: ModelFile,
    history: Annotated[bool, typer.Option("--history", help="Also what was done when.")] = False,
) -> None:
    """Print the classes: of each what was seen and is kept, how spread out it is, what it is confused with."""
    from protoreplay.photos import class_summary, model_file

    model = model_file.read_model(path)
    for line in class_summary.summary_lines(model):
        print(line)
    if history:
        print()
        for event in model.history:
            print(class_summary.event_line(event))


@photos_app.command("forget")
def forget_class(
    path: ModelFile,
    name: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="The class to forget.")] = None,
    photo: Annotated[Path | None, typer.Option(metavar="PATH", help="Only this photo; CLASS may be left out.")] = None,
) -> None:
    """Remove every trace of a class or a photo, from the model and the cache of features; this cannot be undone."""
    if name is None and photo is None:
        raise UserError("give a class to forget, or --photo PATH")
    with changed_model(path) as classifier:
        if photo:
            line = str(classifier.forget_photo(photo, name))
        else:
            classifier.forget(name or "")
            line = f"forgot '{name}'"
    print(f"{path}: {line}")


@photos_app.command("rename")
def rename_class(
    path: ModelFile,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The present name.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    yes: Yes = False,
) -> None:
    """Give a class another name."""
    with changed_model(path) as classifier:
        if new not in classifier:
            _ask_about_names([new], [name for name in classifier.classes if name != old], yes)
        classifier.rename(old, new)
    print(f"{path}: '{old}' is '{new}' now")


@photos_app.command("merge")
def merge_models(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Models of one encoder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model to write.")],
    force: Force = False,
    yes: Yes = False,
) -> None:
    """Put models together: the same as learning all their photos in one."""
    from functools import reduce

    from protoreplay.core.files import check_output
    from protoreplay.photos import model_file

    check_output(output, models, force)
    parts = [model_file.read_model(path) for path in models]
    _ask_about_names([name for part in parts[1:] for name in part.classes], parts[0].classes, yes)
    merged = reduce(lambda one, other: one.merge(other), parts)
    with model_file.model_lock(output, print_to_stderr):
        check_output(output, models, force)  # somebody else may have written it in the meantime
        model_file.write_model(merged, output)
    print(f"{output}: {counted(len(merged.classes), 'class', 'classes')}")


@photos_app.command("evaluate")
def evaluate_model(
    path: ModelFile,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A sub-folder of photos per class.")],
    unknown: Unknown = None,
    encoder: EncoderName = None,
    format: Annotated[str, typer.Option(metavar="text|json", help="Output format.")] = "text",
    wrong: Annotated[
        Path | None, typer.Option("--wrong", metavar="FILE", help="Also list the photos not answered rightly, as CSV.")
    ] = None,
    force: Force = False,
    no_cache: NoCache = False,
) -> None:
    """Ask about photos whose class is known: how many are right, refused, and what is taken for what.

    Sub-folders whose name is no class of the model are photos of none: the right answer to them is "I do not know".
    """
    from protoreplay.core.errors import unknown_name
    from protoreplay.core.files import check_output, write_whole
    from protoreplay.photos import photo_paths, scoring

    if format not in ("text", "json"):
        raise unknown_name("format", format, ["text", "json"])
    if wrong:
        check_output(wrong, [path], force)
    on_interrupt(STARTS_OVER)
    photos = photo_paths.photos_by_class(folder, None, print_to_stderr)
    classifier = open_classifier(path, encoder, not no_cache, must_exist=True)
    classifier.configure(unknown)
    with _photos_done(sum(map(len, photos.values()))) as (progress, tell):
        result = scoring.score_answers(classifier.predict, classifier.model.classes, photos, tell, progress.say)
    print(result.as_json() if format == "json" else result.as_text())
    if wrong:
        write_whole(wrong, scoring.wrong_as_csv(result.wrong).encode("utf-8", "backslashreplace"))
        print_to_stderr(f"{wrong}: {counted(len(result.wrong), 'photo')} not answered rightly")


@photos_app.command("export")
def export_model(
    path: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The ONNX file to write.")],
    encoder: EncoderName = None,
    force: Force = False,
) -> None:
    """Write the whole classifier (encoder, prototypes, unknown threshold) as one ONNX file."""
    from protoreplay.core.files import check_output, write_whole
    from protoreplay.photos.export import to_onnx

    check_output(output, [path, *([Path(encoder)] if encoder else [])], force)
    classifier = open_classifier(path, encoder, cache=False, must_exist=True)
    write_whole(output, to_onnx(classifier.model, classifier.encoder))
    print(f"{output}: {counted(len(classifier), 'class', 'classes')}, {output.stat().st_size / 1e6:.1f} MB")


def open_classifier(path: Path, encoder: str | None, cache: bool, must_exist: bool = False) -> "Classifier":
    """The classifier of a file, or a new one."""
    from protoreplay.encoders.pretrained import DEFAULT_ENCODER
    from protoreplay.photos.classifier import Classifier

    # Pillow warns of what it can live with; what it cannot live with is an error.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    if must_exist or path.exists():
        classifier = Classifier.load(path, encoder, cache)
        _ = classifier.encoder  # a `UserError` now, before any work, where it is none of ours and was not named
        return classifier
    return Classifier(encoder or DEFAULT_ENCODER, cache=cache)


@contextmanager
def changed_model(path: Path) -> "Iterator[Classifier]":
    """The classifier of a file, held against other processes, and saved in the end."""
    from protoreplay.photos import model_file
    from protoreplay.photos.classifier import Classifier

    with model_file.model_lock(path, print_to_stderr):
        classifier = Classifier.load(path)  # whose encoder may be anything: it is not opened
        yield classifier
        classifier.save(path)


@contextmanager
def _photos_done(total: int) -> "Iterator[tuple[ItemProgress, Callable[[int], None]]]":
    """A bar over `total` photos, and at its end how many a second."""
    from protoreplay.core.terminal import item_progress

    started = time.perf_counter()
    with item_progress() as progress:
        progress.begin(counted(total, "photo"), total)
        yield progress, progress.advance
        seconds = time.perf_counter() - started
        progress.say(f"{counted(total, 'photo')} in {seconds:.1f} s, {total / seconds:.0f} a second")


def _stream(
    classifier: "Classifier",
    photos: "Iterable[Path | ZippedPhoto]",
    line: "Callable[..., str]",
    total: int = 0,
    write_xmp: bool = False,
) -> None:
    """Print the answers; with a bar over `total` photos where they are known and shown elsewhere."""
    from protoreplay.core.terminal import ItemProgress, item_progress
    from protoreplay.photos import xmp

    started, count, unreadable = time.perf_counter(), 0, 0
    shown = sys.stderr.isatty() and not sys.stdout.isatty()
    with item_progress() if shown else ItemProgress() as progress:
        progress.begin(counted(total, "photo") if total else "photos", total)
        for answer in classifier.predict(photos):
            count += 1
            unreadable += bool(answer.error)
            progress.advance(1)
            _print(line(answer))
            if write_xmp and answer.label is not None:
                try:
                    xmp.write_keyword(Path(answer.photo), answer.label)
                except (UserError, OSError) as error:
                    print_to_stderr(f"no keyword written: {error}")
    if not count:
        raise UserError("there are no photos in what was given")
    seconds = time.perf_counter() - started
    print_to_stderr(f"{counted(count, 'photo')} in {seconds:.1f} s, {count / seconds:.0f} a second")
    if unreadable:
        raise UserError(f"{unreadable} of {counted(count, 'photo')} could not be read")


def _bulk(
    classifier: "Classifier",
    photos: "Iterable[Path | ZippedPhoto]",
    work: Path,
    format: str,
    engine: str,
    address: str | None,
) -> None:
    from protoreplay.photos import bulk, model_file, photo_paths

    files = photo_paths.only_files(photos)
    run = bulk.answer_on_ray(address) if engine == "ray" else bulk.answer_in_this_process
    content = model_file.model_to_bytes(classifier.model)
    with _photos_done(len(files)) as (_, tell):
        for line in bulk.answer_all(content, classifier.encoder.name, files, work, format, run, tell):
            _print(line)


def _print_report(report: "TeachingReport") -> None:
    for error in report.errors:
        print_to_stderr(f"{error.name}: {error.error}")
    for warning in report.warnings:
        print_to_stderr(f"warning: {warning}")
    for name, count in report.learned.items():
        again = report.known[name]
        were = "was" if again == 1 else "were"
        _print(f"{name}: {counted(count, 'photo')} learned" + (f", {again} {were} known" if again else ""))


def _ask_about_names(names: Iterable[str], known: Collection[str], yes: bool) -> None:
    """Ask about new names that are all but the same as others; where nobody can be asked, they are an error."""
    from protoreplay.photos.photo_model import alike_class_names

    for name, other in [] if yes else alike_class_names(names, known):
        differ = f"'{name}' and '{other}' differ in case, spaces or accents alone"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UserError(f"{differ}: give both one name, or --yes if they are two classes")
        if not typer.confirm(f"{differ}. Are they two classes?", err=True):
            raise UserError(f"nothing was changed: give '{name}' the name '{other}' to make them one class")


def _print(line: str) -> None:
    # A file's name may be bytes that are no text.
    print(line.encode("utf-8", "backslashreplace").decode(), flush=True)
