"""The command that serves the page."""

import sys
from typing import Annotated

import typer

from protoreplay.cli.photo_commands import EncoderName, ModelFile, Unknown, open_classifier
from protoreplay.core.errors import UserError

serve_app = typer.Typer()

NEW_KEEP = 8
"""Thumbnails of a class that a new model keeps: a page without pictures would be hard to read."""


@serve_app.command("serve")
def serve_model(
    path: ModelFile,
    host: Annotated[
        str, typer.Option(help="Address to listen on. At any but the default, other machines can reach the server.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="PROTOREPLAY_TOKEN",
            help="Token that every request needs; the printed address contains it.",
            show_default="a new one",
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Let every user and every program of this machine read and change the model."),
    ] = False,
    browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page in a browser.", show_default="in a terminal it is opened"),
    ] = None,
    encoder: EncoderName = None,
    unknown: Unknown = None,
    keep: Annotated[
        int | None,
        typer.Option(
            help="Thumbnails to keep of each class.",
            min=0,
            max=1000,
            show_default=f"the model's; {NEW_KEEP} for a new one",
        ),
    ] = None,
) -> None:
    """Open a page for teaching the model and asking it. MODEL is created if it does not exist."""
    try:
        from protoreplay.photos.serve import addresses, app, guard, http_server, listening
    except ModuleNotFoundError as error:
        raise UserError(f"`serve` needs {error.name}: pip install 'protoreplay[serve]'") from None
    from protoreplay.photos import model_file
    from protoreplay.photos.serve.served_model import ServedModel

    token = listening.checked_token(host, token, no_token)
    model_file.check_place(path)
    is_new = not path.exists()
    classifier = open_classifier(path, encoder, cache=False)
    classifier.configure(unknown, NEW_KEEP if is_new and keep is None else keep)
    with listening.listening_socket(host, port) as socket:
        if is_new:
            with model_file.model_lock(path, print):
                classifier.save(path)
        address = listening.page_address(addresses.own_host(host), socket, token)
        print(f"{path}: {address}  (Ctrl-C stops)", flush=True)
        if token is None:
            print("no token: every user and every program of this machine can read and change the model", flush=True)
        if not guard.is_loopback(host):
            print("\n".join(addresses.for_others(host, socket, token)), flush=True)
        application = app.create_app(ServedModel(path, classifier.encoder, classifier.state), host, token)
        with listening.opened_in_browser(address, sys.stdout.isatty() if browser is None else browser):
            http_server.run_server(application, socket)
