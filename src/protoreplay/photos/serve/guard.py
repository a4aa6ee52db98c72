"""What may come in: requests from this page or a program with the token, no larger or slower than they need to be."""

import asyncio
import contextlib
import hmac
import ipaddress
import json
import socket
import time
from collections.abc import AsyncIterator, Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_WITHOUT_PHOTOS = 64 * 2**10
"""Bytes of a request that is no form with files."""
WAIT_SECONDS = 10.0
"""For other uploads to end: each file of more than a megabyte is kept open on the disk."""
BODY_SECONDS, SLOWEST = 30.0, 50_000
"""A body may take so long, and a second more for so many bytes of it that have come."""
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
        most_bytes: of a request's body, and of those of all requests at a time.
    """

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", token: str | None = None, most_bytes: int = 2**28):
        self._app, self._token, self._most = app, token, most_bytes
        self._coming_in, self._ended = 0, asyncio.Condition()
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
                # Not `Strict`: a link to the page, from a terminal or a file, is another site's. What changes the
                # model is no link, and does not get this cookie from other sites.
                cookie = f"{_cookie_name(headers)}={quote(given, safe='')}; Path=/; HttpOnly; SameSite=Lax"
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

        most = self._most_of(headers)
        started, received, more = time.monotonic(), 0, True

        async def counted() -> Message:
            nonlocal received, more
            if not more:
                return await receive()
            left = BODY_SECONDS + received / SLOWEST - (time.monotonic() - started)
            try:
                message = await asyncio.wait_for(receive(), max(0.0, left))
            except TimeoutError:
                raise HTTPException(408, "the request was sent too slowly") from None
            more = message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, self._too_large(most))
            return message

        try:
            async with self._room(int(headers.get("content-length", most))):
                await self._app(scope, counted, guarded_send)
        except TimeoutError:
            await _plain(send, 503, "other photos are coming in: try again in a moment", {"Retry-After": "5"})

    @contextlib.asynccontextmanager
    async def _room(self, size: int) -> AsyncIterator[None]:
        """Wait until so many bytes may come in beside those of other requests; a `TimeoutError` if that is long."""
        if size <= MOST_WITHOUT_PHOTOS:
            yield
            return
        async with asyncio.timeout(WAIT_SECONDS), self._ended:
            await self._ended.wait_for(lambda: self._coming_in + size <= self._most)
            self._coming_in += size
        try:
            yield
        finally:
            # Not under the lock of the condition, for which a cancelled request could not wait.
            self._coming_in -= size
            self._waker = asyncio.ensure_future(self._wake())

    async def _wake(self) -> None:
        async with self._ended:
            self._ended.notify_all()

    def _most_of(self, headers: Headers) -> int:
        form = headers.get("content-type", "").lower().startswith("multipart/form-data")
        return self._most if form else min(self._most, MOST_WITHOUT_PHOTOS)

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
        if not length.isascii() or not length.isdecimal() or len(length) > 20:
            return 400, "Content-Length must be a number"
        most = self._most_of(headers)
        return (413, self._too_large(most)) if int(length) > most else None

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

    def _too_large(self, most: int) -> str:
        if most < self._most:
            return f"a request without photos may have {most // 2**10} KB at most"
        return f"a request may have {most // 2**20} MB at most: send fewer photos at once"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that address."""
    return host.lower() == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie_name(headers: Headers) -> str:
    """One for each port: browsers send cookies to all servers of a machine."""
    port = headers["host"].rpartition(":")[2]
    return f"protoreplay-{port if port.isascii() and port.isdecimal() else 80}"


def _token_of(headers: Headers) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
    except CookieError:
        return ""
    return parse_qs(f"v={cookie.value}").get("v", [""])[0] if cookie else ""


async def _plain(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = json.dumps({"detail": text}).encode()
    about = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close", **HEADERS}
    raw = [(key.lower().encode(), value.encode("latin-1")) for key, value in {**about, **(headers or {})}.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
