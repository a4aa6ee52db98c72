"""The command that answers photos as they arrive."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoreplay.cli.photo_commands import EncoderName, ModelFile, Unknown, open_classifier
from protoreplay.cli.printing import print_line
from protoreplay.core.errors import UserError, print_to_stderr

if TYPE_CHECKING:
    from protoreplay.photos.classifier import Classifier
    from protoreplay.photos.watching import AnswerDelivery

watch_app = typer.Typer()


@watch_app.command("watch")
def watch_source(
    path: ModelFile,
    source: Annotated[str, typer.Argument(metavar="FOLDER|URL", help="Folder, or address of a camera (http or rtsp).")],
    every: Annotated[
        float | None,
        typer.Option(help="Seconds between checks for new photos.", min=0.05, show_default="1; 10 for a camera"),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option("--exec", metavar="PROGRAM", help="Program to run for each answer; it reads the answer as JSON."),
    ] = None,
    mqtt: Annotated[
        str | None,
        typer.Option(
            envvar="PROTOREPLAY_MQTT",
            metavar="HOST[:PORT]",
            help="Send answers to this MQTT broker, for Home Assistant too; mqtt://USER:PASSWORD@HOST, or mqtts://.",
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option(help="MQTT topic of the messages.", show_default="protoreplay/NAME, of the folder or camera")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Answer the photos that are there, then stop.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File that records which photos were answered.", show_default="in the user's cache"
        ),
    ] = None,
    unknown: Unknown = None,
    encoder: EncoderName = None,
) -> None:
    """Answer each photo once as it arrives in a folder or from a camera, and print the answers as JSON lines."""
    from protoreplay.core.locks import held_lock
    from protoreplay.core.places import make_cache_folder
    from protoreplay.photos import cameras, watching

    is_camera = cameras.is_camera(source)
    classifier = open_classifier(path, encoder, cache=False, must_exist=True)
    classifier.configure(unknown)
    shown = cameras.SnapshotCamera(source).shown if is_camera else str(Path(source).absolute())
    make_cache_folder((state := state or watching.state_file(path.absolute(), shown, mqtt, topic, program)).parent)
    with contextlib.ExitStack() as stack:
        lock, busy = state.with_name(state.name + ".lock"), f"another process is watching {shown}"
        stack.enter_context(held_lock(lock, print_to_stderr, busy))
        known = watching.WatchState(state)
        watched: watching.WatchedCamera | watching.WatchedFolder
        if is_camera:
            watched = watching.WatchedCamera(source, known, print_to_stderr)
        else:
            watched = watching.WatchedFolder(Path(source), known)
        deliveries = _deliveries(stack, mqtt, topic, program, shown)
        print_to_stderr(f"watching {shown}  (Ctrl-C stops)")
        reload = _Reloading(path, classifier, unknown)
        watching.watch_photos(
            classifier, watched, known, deliveries, every or (10.0 if is_camera else 1.0), once, reload.look
        )


def _deliveries(
    stack: contextlib.ExitStack, mqtt: str | None, topic: str, program: str | None, shown: str
) -> "list[AnswerDelivery]":
    from protoreplay.photos import watching

    deliveries: list[AnswerDelivery] = []
    if topic and not mqtt:
        raise UserError("--topic needs --mqtt HOST")
    if mqtt:
        from protoreplay.photos.mqtt import MqttDelivery

        broker = MqttDelivery(mqtt, shown.rstrip("/").rpartition("/")[2] or shown, topic, print_to_stderr)
        stack.callback(broker.close)
        deliveries.append(broker)
    if program:
        deliveries.append(watching.ProgramDelivery(program, print_to_stderr))
    return [*deliveries, watching.LineDelivery(print_line)]


class _Reloading:
    """Takes a model's file again when it has changed, so that a model can be taught while it watches."""

    def __init__(self, path: Path, classifier: "Classifier", unknown: float | None) -> None:
        self.path, self.classifier, self.unknown = path, classifier, unknown
        self._mark = self._found()

    def look(self) -> None:
        """Take it where it has changed; a file that is gone for a moment is waited for."""
        from protoreplay.photos import model_file

        mark = self._found()
        if mark is not None and mark != self._mark:
            self._mark = mark
            self.classifier.replace(model_file.read_model(self.path))
            self.classifier.configure(self.unknown)
            print_to_stderr(f"{self.path} has changed: using the new model")

    def _found(self) -> tuple[int, int] | None:
        try:
            about = os.stat(self.path)  # noqa: PTH116
        except OSError:
            return None
        return about.st_mtime_ns, about.st_ino
