"""A server as a person starts it."""

import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from protoreplay import Classifier
from protoreplay.photos.serve import app
from protoreplay.photos.serve.served_model import ServedModel


@contextlib.contextmanager
def serving(model: Path, encoder: str) -> Iterator[str]:
    """The address of a server in this process, which starts at once; the model is new where there is no file."""
    known = Classifier.load(model, encoder, cache=False) if model.exists() else Classifier(encoder, keep=8, cache=False)
    application = app.create_app(ServedModel(model, known.encoder, known.state))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            until = time.monotonic() + 60
            while thread.is_alive() and time.monotonic() < until:
                server.force_exit = True
                thread.join(0.05)


@contextlib.contextmanager
def running(model: Path, *options: str, setup: str = "", **how: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, which runs the code `setup` before, and its address; it is killed at the end."""
    command = [
        sys.executable,
        "-c",
        f"{setup}\nfrom protoreplay.cli import main; main()",
        "serve",
        str(model),
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **how)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield process, found[0]
    finally:
        process.kill()
        process.wait(300)
        process.stdout.close()
