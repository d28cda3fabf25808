"""Who may connect: a bounded number of clients, and none that is silent or has stopped reading.

A connection costs little until its first bytes come: then it is given to aiohttp, or turned away if
it brings a text for which there is no place.
"""

import asyncio
import errno
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Optional, cast

from aiohttp import web

from pet_fairseq.errors import UserError
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.queue import FULL

# limits of a request's line and headers; aiohttp's own let 1 MB in
HEAD_LIMITS: dict[str, Any] = {"max_line_size": 2048, "max_field_size": 4096, "max_headers": 64}
BACKLOG = 1024  # connections that wait to be accepted; the kernel may allow fewer
AT_ONCE = 64  # connections that are accepted in a row before open ones have their turn
GRACE = 1.0  # seconds in which a client can say something, and can read why it is turned away
UNREAD_SECONDS = 30.0  # after which a client that reads nothing of its answers is cut off
MOST_LEAVING = 256  # clients that are given time to read why they are turned away
WRONG_PORT = {errno.EADDRINUSE: "is in use", errno.EACCES: "is kept for the system"}
PREDICT = "/predict"  # the route of texts
TEXT = f"POST {PREDICT} ".encode()  # the first bytes of a request with texts


async def listen(
    make_protocol: Callable[[], asyncio.Protocol], host: str, port: int
) -> asyncio.Server:
    """A server at this address, which gives every client a protocol of its own.

    Raises:
        UserError: the port is in use, or the host is not an address of this machine.
    """
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(make_protocol, host, port, backlog=AT_ONCE)
    except (OSError, UnicodeError) as error:  # the latter of a name with an empty part
        code = getattr(error, "errno", None)
        if code in WRONG_PORT:
            line = f"--port {port}: {WRONG_PORT[code]}; give another one, or 0 for any"
        else:
            why = getattr(error, "strerror", None) or "no name of a host"
            line = f"--host {host}: {why}; give an address of this machine"
        raise UserError(line) from error


async def check_address(host: str, port: int) -> None:
    """Raises UserError, as `listen`, if no server can be at this address."""
    (await listen(asyncio.Protocol, host, port)).close()


class Entrance:
    """The port, open to at most so many connections.

    Args:
        limit: open connections; those with texts leave an eighth to others, such as /health.
        idle_seconds: after which a connection that has said nothing is closed.
    """

    def __init__(self, engine: Engine, limit: int, idle_seconds: float):
        self.engine = engine
        self.limit = limit
        self.limit_with_texts = limit - limit // 8
        self.idle_seconds = idle_seconds
        self.silent: dict[Newcomer, None] = {}  # have said nothing so far; the oldest first
        self.leaving: dict[Newcomer, None] = {}  # are turned away; the oldest first

    async def open(self, server: web.Server, host: str, port: int) -> None:
        """Listen for clients, and hand those that may stay to aiohttp's server.

        Raises:
            UserError: as `listen`.
        """
        self.loop = asyncio.get_running_loop()
        self.server = server
        self.listener = await listen(lambda: Newcomer(self), host, port)
        for listening in self.listener.sockets:
            # from a short backlog the kernel would drop clients while the event loop is busy
            with listening.dup() as duplicate:
                duplicate.listen(max(self.limit, BACKLOG))
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
                milliseconds = int(1000 * UNREAD_SECONDS)
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.listener.sockets[0].getsockname()[:2]

    def close(self) -> None:
        """Take no more connections; those that were given to aiohttp stay."""
        self.listener.close()
        for newcomer in (*self.silent, *self.leaving):
            newcomer.transport.close()

    # --- how many there are -----------------------------------------------------------------------

    @property
    def taken(self) -> int:
        """The connections that aiohttp has."""
        return len(self.server.connections)

    @property
    def crowded(self) -> bool:
        """Whether connections should be closed after an answer, not kept for a next request."""
        return self.taken >= self.limit // 2

    # --- a connection, from its first moment until aiohttp has it ---------------------------------

    def enter(self, newcomer: "Newcomer") -> None:
        """Let a connection wait for its first bytes, or turn it away if too many are open."""
        if self.taken + len(self.silent) >= self.limit and not self._make_room():
            self.turn_away(newcomer, f"{self.limit} connections are open, more are not taken")
            return
        self.silent[newcomer] = None
        newcomer.timer = self.loop.call_later(self.idle_seconds, newcomer.transport.close)

    def _make_room(self) -> bool:
        """Turn away the client that was silent longest; False if none has had time to speak."""
        oldest = next(iter(self.silent), None)
        if oldest is None or self.loop.time() < oldest.arrived + GRACE:
            return False
        self.turn_away(oldest, "nothing was said while others waited for the connection")
        return True

    def first_bytes(self, newcomer: "Newcomer", data: bytes) -> None:
        """Give a connection that begins with these bytes to aiohttp, or turn it away."""
        why = self._why_not(data)
        if why is None:
            self.forget(newcomer)
            newcomer.become(self.server(), data)
        else:
            self.engine.metrics.count_request(503)
            self.turn_away(newcomer, why)

    def _why_not(self, start: bytes) -> Optional[str]:
        """Why a request that begins so cannot be taken; None if it can, or if that is not known."""
        if not start.startswith(TEXT):
            return None
        if self.taken >= self.limit_with_texts:
            return f"{self.limit_with_texts} connections with texts are open, more are not taken"
        return FULL if self.engine.queue.is_full() else None

    def turn_away(self, newcomer: "Newcomer", why: str) -> None:
        """Say why, and close the connection soon."""
        self.forget(newcomer)
        if len(self.leaving) >= MOST_LEAVING:
            oldest = next(iter(self.leaving))
            self.forget(oldest)
            oldest.transport.close()
        self.leaving[newcomer] = None
        newcomer.transport.write(unavailable(why))
        with suppress(OSError):  # a client that has left has no connection to shut down
            newcomer.transport.write_eof()
        # if it were closed at once, with bytes unread, the answer would be lost
        newcomer.timer = self.loop.call_later(GRACE, newcomer.transport.close)

    def forget(self, newcomer: "Newcomer") -> None:
        """Stop counting and timing a connection that is gone, or that aiohttp has."""
        self.silent.pop(newcomer, None)
        self.leaving.pop(newcomer, None)
        if newcomer.timer is not None:
            newcomer.timer.cancel()


class Newcomer(asyncio.Protocol):
    """A connection that has said nothing so far, or is turned away."""

    def __init__(self, entrance: Entrance):
        self.entrance = entrance
        self.arrived = entrance.loop.time()
        self.timer: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.entrance.enter(self)

    def data_received(self, data: bytes) -> None:
        if self in self.entrance.silent:
            self.entrance.first_bytes(self, data)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.entrance.forget(self)

    def become(self, protocol: asyncio.Protocol, data: bytes) -> None:
        """Give the connection to another protocol, with the bytes that came."""
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(data)


def unavailable(why: str) -> bytes:
    """An answer with status 503, after which the connection is closed."""
    body = json.dumps({"error": why})
    return (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{body}"
    ).encode()
