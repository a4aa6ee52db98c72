"""The commands that look into a photo model and take its steps back: each calls the library and prints."""

from pathlib import Path
from typing import Annotated

import typer

from protoreplay.cli.photo_commands import EncoderName, ModelFile, changed_model, open_classifier
from protoreplay.cli.printing import print_columns
from protoreplay.core.errors import UserError

models_app = typer.Typer()


@models_app.command("undo")
def undo_step(path: ModelFile) -> None:
    """Take the last change of the model back; the file holds up to 20. What was forgotten does not come back."""
    from protoreplay.photos.class_summary import event_line

    with changed_model(path) as classifier:
        event = classifier.model.history[-1:]
        classifier.undo()
    print(f"{path}: undone: {event_line(event[0])}; {classifier.undoable} before it, {classifier.redoable} to redo")


@models_app.command("redo")
def redo_step(path: ModelFile) -> None:
    """Do the change again that was undone last."""
    from protoreplay.photos.class_summary import event_line

    with changed_model(path) as classifier:
        classifier.redo()
    event = classifier.model.history[-1]
    print(f"{path}: done again: {event_line(event)}; {classifier.redoable} more to redo")


@models_app.command("unite")
def unite_classes(
    path: ModelFile,
    one: Annotated[str, typer.Argument(metavar="A", help="The class that is no class of its own any more.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The class that has the photos of both.")],
) -> None:
    """Make one class of two: the photos of A become photos of B."""
    with changed_model(path) as classifier:
        classifier.unite(one, other)
        count = classifier.model.classes[other].count
    print(f"{path}: '{one}' is a part of '{other}' now, {count} photos")


@models_app.command("explain")
def explain_answer(
    path: ModelFile,
    photo: Annotated[Path, typer.Argument(metavar="PHOTO", help="The photo to explain.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write, a PNG file.")],
    encoder: EncoderName = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Draw why a photo is answered as it is: where in it the answer comes from, and the nearest kept photos."""
    from protoreplay.core.files import write_whole
    from protoreplay.data.pictures import decode_picture
    from protoreplay.photos.answer_formats import answer_as_text
    from protoreplay.photos.explain import explain_photo
    from protoreplay.photos.explain_picture import explanation_as_png

    if output.exists() and not force:
        raise UserError(f"{output} is there already: give another name, or --force")
    if output.suffix.lower() != ".png":
        raise UserError(f"{output}: the picture is a PNG file, so give a name that ends in .png")
    classifier = open_classifier(path, encoder, cache=False, must_exist=True)
    try:
        (pixels,) = decode_picture(photo, classifier.encoder.size, fast=True)
    except UserError as error:
        raise UserError(f"{photo}: {error}") from None
    found = explain_photo(classifier.model, classifier.encoder, pixels, str(photo))
    write_whole(output, explanation_as_png(found))
    print(answer_as_text(found.answer).encode("utf-8", "backslashreplace").decode())
    print(f"the strongest reason lies in {found.strongest_place()} of it")
    for kept in found.nearest:
        print(f"  like {kept}")
    print(output)


@models_app.command("encoders")
def encoders_command(
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Also measure these: timm:NAME, FILE.onnx, lite2@288."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Open and measure nothing.")] = False,
) -> None:
    """List what turns images into features: for photos with size, speed here and accuracy; then those of research."""
    from protoreplay.encoders.registry import ENCODERS
    from protoreplay.photos.encoder_list import list_encoders, timm_state

    rows: list[tuple[str, ...]] = [
        ("for photos", "side", "size", "images a second here", "CIFAR-10, ten photos a class", "")
    ]
    for one in list_encoders(not quick, tuple(more or ())):
        numbers = (
            f"{one.side or '?'}",
            f"{one.megabytes:.0f} MB",
            f"{one.speed:.0f} on one core",
            f"{one.accuracy:.1%}",
        )
        known = (one.side, one.megabytes, one.speed, one.accuracy)
        shown = (text if number else "-" for text, number in zip(numbers, known, strict=True))
        rows.append((one.name, *shown, one.state))
    rows += [("timm:NAME", "", "", "", "", f"a model of timm with its weights; {timm_state()}")]
    rows += [("FILE.onnx", "", "", "", "", "an ONNX graph of your own")]
    print_columns(rows)
    print()
    others = [(name, entry) for name, entry in ENCODERS.items() if entry.kind != "pretrained"]
    print_columns(
        [
            ("for research", "kind", "what it is"),
            *((name, entry.kind, entry.summary) for name, entry in others),
            ("FILE.py:NAME", "trained", "a torch.nn.Module of your own, or a function that makes one"),
        ]
    )
