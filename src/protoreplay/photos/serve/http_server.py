"""The HTTP server under the application, with a bound on all that a stranger can hold: connections, time, log lines."""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 100
HEAD_SECONDS = 10.0
"""In which the head of a request has to come, from the begin of a connection or the end of the answer before."""
READ_SECONDS = 30.0
"""In which a client has to read on where an answer is longer than what systems keep for it."""
SHUTDOWN_SECONDS = 15
"""For requests that are being answered; they wait for nothing longer than that."""
LARGEST_HEAD = 16 * 2**10


class BoundedConnection(H11Protocol):
    """A connection that closes where the client is silent, and at once where there are many."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        self._close_after(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._close_after(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop the clock once the head of a request is whole."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._close_after(None)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless that is here already."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._close_after(HEAD_SECONDS)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._close_after(READ_SECONDS)

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        self._close_after(None if self.cycle and not self.cycle.response_complete else HEAD_SECONDS)

    def _close_after(self, seconds: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def run_server(application: ASGIApp, listening: socket.socket) -> None:
    """Answer until a signal says stop; then requests that are being answered may end."""
    settings: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
    config = uvicorn.Config(
        application,
        http=BoundedConnection,
        ws="none",
        backlog=32,  # so many are accepted before the first of them is looked at
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        **settings,
    )
    uvicorn.Server(config).run(sockets=[listening])
