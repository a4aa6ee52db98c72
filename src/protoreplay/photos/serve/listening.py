"""The address that the server listens on, and who is told of it."""

import contextlib
import html
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from protoreplay.core.errors import UserError
from protoreplay.photos.serve.guard import is_loopback

SHORTEST_TOKEN = 8


def checked_token(host: str, token: str | None, none: bool = False) -> str | None:
    """The token to ask for: the one given, or a new one; `none` is for this machine's own address alone."""
    if none:
        if token is not None:
            raise UserError("--token and --no-token: give one of the two, and mind PROTOREPLAY_TOKEN")
        if not is_loopback(host):
            raise UserError("--no-token is for this machine's own address alone: leave out --host")
        return None
    if token is None:
        return secrets.token_urlsafe(16)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UserError(f"a token has {SHORTEST_TOKEN} or more characters, letters, digits and signs")
    return token


@contextlib.contextmanager
def opened_in_browser(address: str, wanted: bool) -> Iterator[None]:
    """The page in the user's browser, where there is one.

    The browser is given a file that only the user can read and that leads to the address: other users of the machine
    see what programs are called with.
    """
    with contextlib.ExitStack() as stack:
        if wanted:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="protoreplay-")))  # mode 0700
            page = folder / "open.html"
            page.write_text(f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">')
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(page.as_uri())
        yield


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; a `UserError` if it cannot."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
    except UnicodeError:  # a part of the name is empty or very long
        raise UserError(f"cannot listen on {host}: this is no name of a machine, give another --host") from None
    except OSError as error:
        raise UserError(f"cannot listen on {host}, port {port} ({error.strerror}): choose another --port") from None
    return listening


def page_address(host: str, listening: socket.socket, token: str | None) -> str:
    """What to open in a browser."""
    name = f"[{host}]" if ":" in host else host
    secret = f"?token={quote(token, safe='')}" if token else ""
    return f"http://{name}:{listening.getsockname()[1]}/{secret}"
