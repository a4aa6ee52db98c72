"""The commands that look into a photo model and take its steps back: each calls the library and prints."""

from typing import Annotated

import typer

from protoreplay.cli.photo_commands import ModelFile, changed_model

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
