"""What may come in: requests from this page or a program of this machine, no larger than they need to be."""

import hmac
import ipaddress
import json
import socket
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "protoreplay"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class RequestGuard:
    """An ASGI application around another one.

    Args:
        app: what is guarded.
        host: the address that is listened on.
        token: asked of every request, in `Authorization: Bearer`, in a cookie, or once as `/?token=`.
        most_bytes: of a request's body.
    """

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", token: str | None = None, most_bytes: int = 2**28):
        self._app, self._token, self._most = app, token, most_bytes
        self._names: Collection[str] = LOOPBACK
        self._any_address = not is_loopback(host)
        if self._any_address:
            self._names = {*LOOPBACK, host.lower(), socket.gethostname().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request, or refuse it and say why."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._token and scope["method"] == "GET" and scope["path"] == "/":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if self._host_known(headers) and self._same(given):
                cookie = f"{COOKIE}={quote(given, safe='')}; Path=/; HttpOnly; SameSite=Strict"
                await _plain(send, 303, "welcome", {"Location": "/", "Set-Cookie": cookie})
                return
        refusal = self._refusal(scope, headers)
        if refusal:
            await _plain(send, *refusal)
            return

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                raise HTTPException(413, self._too_large())
            return message

        await self._app(scope, counted, guarded_send)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if not self._host_known(headers):
            return 421, "this server does not answer to that name: open the address that it printed"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"{scheme}://{headers['host']}" for scheme in ("http", "https")):
            return 403, "requests from other pages are refused"
        navigation = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not navigation:
            return 403, "requests from other pages are refused"
        if self._token and not self._same(_token_of(headers)):
            return 401, "a token is needed: open the address that the server printed, or send Authorization: Bearer"
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal():
            return 400, "Content-Length must be a number"
        return (413, self._too_large()) if int(length) > self._most else None

    def _host_known(self, headers: Headers) -> bool:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return False
        name = hosts[0].lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        # Another page can make its own name point here, but not an address.
        return name in self._names or (self._any_address and _is_address(name))

    def _same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), (self._token or "").encode())

    def _too_large(self) -> str:
        return f"a request may have {self._most // 2**20} MB at most: send fewer photos at once"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that address."""
    return host.lower() == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _token_of(headers: Headers) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return parse_qs(f"v={cookie.value}").get("v", [""])[0] if cookie else ""


async def _plain(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = json.dumps({"detail": text}).encode()
    about = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close", **HEADERS}
    raw = [(key.lower().encode(), value.encode("latin-1")) for key, value in {**about, **(headers or {})}.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
