"""A server as a person starts it."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


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
