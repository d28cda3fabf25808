"""Who may connect: a bounded number of clients, none of which keeps a place by saying nothing.

A connection costs little until its first bytes come: then it is given to aiohttp.
"""

import asyncio
import errno
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Optional, cast

from aiohttp import web

from pet_fairseq.errors import UserError
from pet_fairseq.serve.request import RETRY_SECONDS, RequestError

BACKLOG = 1024  # connections that wait to be accepted; the kernel may allow fewer
AT_ONCE = 64  # connections that are accepted in a row before open ones have their turn
GRACE = 1.0  # seconds in which a client can say something, and can read why it is refused
MOST_REFUSED = 256  # clients that are given time to read why they are refused
UNREAD_SECONDS = 30.0  # after which a client that reads nothing of its answers is cut off
WRONG_PORT = {errno.EADDRINUSE: "is in use", errno.EACCES: "is kept for the system"}


async def listen(
    make_protocol: Callable[[], asyncio.Protocol], host: str, port: int
) -> asyncio.Server:
    """A server at this address, which gives every client a protocol of its own.

    Raises:
        UserError: the port is in use, or the host is not an address of this machine.
    """
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(make_protocol, host, port, backlog=AT_ONCE)
    except (OSError, UnicodeError) as error:  # the latter of a name with an empty part
        code = getattr(error, "errno", None)
        if code in WRONG_PORT:
            line = f"--port {port}: {WRONG_PORT[code]}; give another one, or 0 for any"
        else:
            why = getattr(error, "strerror", None) or "no name of a host"
            line = f"--host {host}: {why}; give an address of this machine"
        raise UserError(line) from error
    for listening in server.sockets:
        # from a short backlog the kernel would drop clients while the event loop is busy
        with listening.dup() as duplicate:
            duplicate.listen(BACKLOG)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            milliseconds = int(1000 * UNREAD_SECONDS)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return server


async def check_address(host: str, port: int) -> None:
    """Raises UserError, as `listen`, if no server can be at this address."""
    (await listen(asyncio.Protocol, host, port)).close()


class Connections:
    """The open connections, a bounded number.

    Args:
        limit: connections that are the HTTP server's, or silent so far.
        idle_seconds: after which a connection that has said nothing is closed.
    """

    def __init__(self, limit: int, idle_seconds: float):
        self.limit = limit
        self.idle_seconds = idle_seconds
        self.silent: dict[NewConnection, None] = {}  # have said nothing so far; the oldest first
        self.refused: dict[NewConnection, None] = {}  # may read why; the oldest first

    async def open(
        self, server: web.Server, check_first: Callable[[bytes], None], host: str, port: int
    ) -> asyncio.Server:
        """Listen for the clients of an HTTP server.

        Args:
            check_first: raises RequestError if a connection that begins with these bytes is not
                taken.
        Raises:
            UserError: as `listen`.
        """
        self.server = server
        self.check_first = check_first
        return await listen(lambda: NewConnection(self), host, port)

    def close(self) -> None:
        """Close all connections but the HTTP server's."""
        for connection in (*self.silent, *self.refused):
            connection.transport.close()

    @property
    def taken(self) -> int:
        """The connections that the HTTP server has."""
        return len(self.server.connections)

    @property
    def crowded(self) -> bool:
        """Whether connections should be closed after an answer, not kept for a next request."""
        return self.taken >= self.limit // 2

    def add(self, connection: "NewConnection") -> None:
        """Let a connection wait for its first bytes, or refuse it if too many are open."""
        if self.taken + len(self.silent) >= self.limit and not self._make_room():
            self.refuse(connection, f"{self.limit} connections are open, more are not taken")
            return
        self.silent[connection] = None
        connection.close_after(self.idle_seconds)

    def _make_room(self) -> bool:
        """Refuse the client that was silent longest; False if none has had time to speak."""
        oldest = next(iter(self.silent), None)
        if oldest is None or asyncio.get_running_loop().time() < oldest.arrived + GRACE:
            return False
        self.refuse(oldest, "nothing was said while others waited for the connection")
        return True

    def hand_over(self, connection: "NewConnection", data: bytes) -> None:
        """Give a connection that begins with these bytes to the HTTP server, or refuse it."""
        try:
            self.check_first(data)
        except RequestError as error:
            self.refuse(connection, str(error))
        else:
            self.forget(connection)
            connection.become(self.server(), data)

    def refuse(self, connection: "NewConnection", why: str) -> None:
        """Say why, and close the connection soon."""
        self.forget(connection)
        if len(self.refused) >= MOST_REFUSED:
            oldest = next(iter(self.refused))
            self.forget(oldest)
            oldest.transport.close()
        self.refused[connection] = None
        connection.transport.write(unavailable(why))
        with suppress(OSError):  # a client that has left has no connection to shut down
            connection.transport.write_eof()
        connection.close_after(GRACE)  # closed at once, with bytes unread, it would lose the answer

    def forget(self, connection: "NewConnection") -> None:
        """Stop counting and timing a connection that is gone, or that the HTTP server has."""
        self.silent.pop(connection, None)
        self.refused.pop(connection, None)
        if connection.timer is not None:
            connection.timer.cancel()


class NewConnection(asyncio.Protocol):
    """A connection that has said nothing so far, or is refused."""

    def __init__(self, connections: Connections):
        self.connections = connections
        self.arrived = asyncio.get_running_loop().time()
        self.timer: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self in self.connections.silent:
            self.connections.hand_over(self, data)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.connections.forget(self)

    def close_after(self, seconds: float) -> None:
        self.timer = asyncio.get_running_loop().call_later(seconds, self.transport.close)

    def become(self, protocol: asyncio.Protocol, data: bytes) -> None:
        """Give the connection to another protocol, with the bytes that came."""
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(data)


def unavailable(why: str) -> bytes:
    """An answer with status 503, after which the connection is closed.

    It is written here for connections that aiohttp never gets: under overload that is most of them,
    and aiohttp would take several times as long to refuse one.
    """
    body = json.dumps({"error": why})
    return (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_SECONDS}\r\n"
        f"Connection: close\r\n\r\n{body}"
    ).encode()
