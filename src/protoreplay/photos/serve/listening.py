"""The address that the server listens on, and who is told of it."""

import secrets
import socket
from urllib.parse import quote

from protoreplay.core.errors import UserError
from protoreplay.photos.serve.guard import is_loopback

SHORTEST_TOKEN = 8


def checked_token(host: str, token: str | None) -> str | None:
    """The token to ask for: the one given, a new one where others can reach the address, else none."""
    if token is None:
        return None if is_loopback(host) else secrets.token_urlsafe(16)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UserError(f"a token has {SHORTEST_TOKEN} or more characters, letters, digits and signs")
    return token


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
    except OSError as error:
        raise UserError(f"cannot listen on {host}, port {port} ({error.strerror}): choose another --port") from None
    return listening


def page_address(host: str, listening: socket.socket, token: str | None) -> str:
    """What to open in a browser."""
    name = f"[{host}]" if ":" in host else host
    secret = f"?token={quote(token, safe='')}" if token else ""
    return f"http://{name}:{listening.getsockname()[1]}/{secret}"
