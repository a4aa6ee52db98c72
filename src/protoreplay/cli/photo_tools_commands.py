"""The commands around a model: sort photos by their answers, suggest what to label, check a folder before teaching."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.photo_commands import EncoderName, ModelFile, NoCache, Unknown, open_classifier
from protoreplay.cli.printing import print_line
from protoreplay.core.errors import UserError, known_name, print_to_stderr
from protoreplay.core.words import counted

if TYPE_CHECKING:
    from protoreplay.photos.classifier import Classifier
    from protoreplay.photos.sorting import SortAction

tools_app = typer.Typer()

PhotoPaths = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Photos, or folders of photos.")]


@tools_app.command("sort")
def sort_by_answer(
    path: Annotated[Path | None, typer.Argument(metavar="MODEL", help="The model's file.")] = None,
    photos: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Photos, or folders of photos.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to sort into.")
    ] = None,
    move: Annotated[bool, typer.Option("--move", help="Move the photos instead of copying them.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Make symbolic links instead of copies.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go where, and change nothing.")] = False,
    undo: Annotated[
        Path | None, typer.Option("--undo", metavar="FOLDER", help="Undo everything that was sorted into FOLDER.")
    ] = None,
    write_xmp: Annotated[bool, typer.Option("--write-xmp", help="Also write the class into an XMP sidecar.")] = False,
    unsure: Annotated[
        float, typer.Option(help="Put answers below this probability into `unsure`; 0 disables it.", min=0, max=1)
    ] = 0.5,
    unknown: Unknown = None,
    encoder: EncoderName = None,
    no_cache: NoCache = False,
) -> None:
    """Put each photo into a folder named after its answer, or into `unknown` or `unsure`. No file is overwritten."""
    if undo is not None:
        _undo_sort(undo)
        return
    if path is None or not photos or folder is None:
        raise UserError("write `protoreplay sort MODEL PATH... -o FOLDER`, or `protoreplay sort --undo FOLDER`")
    if move and link:
        raise UserError("--move and --link: give one of the two")
    from protoreplay.photos import sorting

    files, zips = sorting.photos_to_sort(photos, folder)
    _name_zips(zips)
    if not files:
        raise UserError("there are no photos in what was given")
    action: SortAction = "move" if move else "link" if link else "copy"
    classifier = open_classifier(path, encoder, not no_cache, must_exist=True)
    classifier.configure(unknown)
    answers, classes = classifier.predict(files), classifier.model.classes
    if dry_run:
        found = sorting.plan_sort(answers, classes, folder, action, unsure)
    else:
        found = sorting.sort_photos(answers, classes, folder, action, unsure, write_xmp, print_to_stderr)
    counts: Counter[str] = Counter()
    left, again = len(zips), 0
    for photo in found:
        if photo.note:
            print_to_stderr(f"{photo.photo}: {photo.note}")
        if photo.again:
            again += 1
        elif photo.to is None:
            left += 1
        else:
            counts[photo.label] += 1
            print_line(f"{photo.photo} -> {photo.to}")
    _print_sorted(counts, again, f"`protoreplay sort --undo {folder}` takes it back" if not dry_run else "a dry run")
    if left:
        raise UserError(f"{left} of {counted(len(files) + len(zips), 'file')} were left where they are")


def _print_sorted(counts: Counter[str], again: int, then: str) -> None:
    told = ", ".join(f"{label} {count}" for label, count in sorted(counts.items())) or "nothing new"
    before = f"; {again} had been sorted before" if again else ""
    print_to_stderr(f"{told}{before} ({then})")


def _undo_sort(folder: Path) -> None:
    from protoreplay.photos import sorting

    count, problems = sorting.undo_sort(folder, print_to_stderr)
    for problem in problems:
        print_to_stderr(problem)
    print_to_stderr(f"{folder}: {count} {'file was' if count == 1 else 'files were'} taken back")
    if problems:
        raise UserError(f"{counted(len(problems), 'file')} could not be taken back and stay in the log")


@tools_app.command("suggest")
def suggest_next(
    path: ModelFile,
    photos: PhotoPaths,
    count: Annotated[int, typer.Option("--count", "-n", help="Number of photos to suggest.", min=1)] = 10,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Also make this new folder, with links to the suggested photos."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="text|json|paths", help="Output format; json prints one object per line.")
    ] = "text",
    unknown: Unknown = None,
    encoder: EncoderName = None,
    no_cache: NoCache = False,
) -> None:
    """List the photos to label next: photos that the model is unsure of, one of each kind, unlike what was taught."""
    import json

    from protoreplay.photos import suggesting
    from protoreplay.photos.answer_formats import answer_as_json
    from protoreplay.photos.photo_paths import files_and_zips
    from protoreplay.photos.xmp import without_sidecars

    known_name("format", format, ["text", "json", "paths"])
    given, zips = files_and_zips(photos)
    files = without_sidecars(given)
    _name_zips(zips)
    if not files:
        raise UserError("there are no photos in what was given")
    classifier = open_classifier(path, encoder, not no_cache, must_exist=True)
    classifier.configure(unknown)
    embedded = list(classifier.embed(files))
    unreadable = [photo for photo in embedded if photo.error]
    for photo in unreadable:
        print_to_stderr(f"{photo.name}: {photo.error}")
    found = suggesting.suggest_photos(classifier.model, embedded, count)
    for one in found:
        if format == "json":
            about = {"unsure": round(one.unsure, 4), "like_it": one.like_it}
            print_line(json.dumps(json.loads(answer_as_json(one.answer)) | about, ensure_ascii=False))
        else:
            print_line(one.answer.photo if format == "paths" else str(one))
    if not found:
        print_to_stderr("nothing to suggest: every photo was taught before or could not be read")
    if folder is not None:
        suggesting.link_suggestions(found, folder)
        print_to_stderr(
            f"{folder}: links to {counted(len(found), 'photo')}; move them into one folder per class and teach these"
        )
    if left := len(unreadable) + len(zips):
        raise UserError(f"{left} of {counted(len(files) + len(zips), 'file')} could not be read")


@tools_app.command("check")
def check_folder(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A sub-folder of photos per class.")],
    encoder: EncoderName = None,
    few: Annotated[int, typer.Option(help="Number of distinct photos below which a class has too few.", min=1)] = 5,
    format: Annotated[
        str, typer.Option(metavar="text|json", help="Output format; json prints one object per line.")
    ] = "text",
    no_cache: NoCache = False,
) -> None:
    """Check a folder before teaching it: photos in two classes, photos that look misplaced, and near-duplicates."""
    from protoreplay.photos import checking
    from protoreplay.photos.photo_paths import photos_by_class

    known_name("format", format, ["text", "json"])
    photos = photos_by_class(folder, None, print_to_stderr)
    classifier = new_classifier(encoder, not no_cache)
    embedded = classifier.embed(photo for some in photos.values() for photo in some)
    by_class = {name: [next(embedded) for _ in some] for name, some in photos.items()}
    found = checking.check_photos(classifier.encoder.name, classifier.encoder.fingerprint, by_class, few)
    for one in found:
        print_line(one.as_json() if format == "json" else f"{one.kind}: {one.text}")
    total = sum(map(len, photos.values()))
    of = f"{counted(total, 'photo')} of {counted(len(photos), 'class', 'classes')}"
    print_to_stderr(f"{of}: {counted(len(found), 'finding') if found else 'no findings'}")


def _name_zips(zips: list[Path]) -> None:
    from protoreplay.photos.zipped_photos import PACKED

    for path in zips:
        print_to_stderr(f"{path}: {PACKED}")


def new_classifier(encoder: str | None, cache: bool) -> "Classifier":
    """A classifier that knows nothing yet."""
    import warnings

    from protoreplay.encoders.pretrained import DEFAULT_ENCODER
    from protoreplay.photos.classifier import Classifier

    # Pillow warns of what it can live with; what it cannot live with is an error.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    return Classifier(encoder or DEFAULT_ENCODER, cache=cache)
