"""Who may connect: a bounded number of clients, none of which keeps a place by saying nothing.

A connection costs little until its first bytes come: then it is given to aiohttp.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Optional, cast

from aiohttp import web

from pet_fairseq.errors import UserError

BACKLOG = 1024  # connections that wait to be accepted; the kernel may allow fewer
AT_ONCE = 64  # connections that are accepted in a row before open ones have their turn
GRACE = 1.0  # seconds in which a client can say something, and can read why it is refused
SPARE = 256  # connections that may be open beyond the limit: silent ones, and refused ones
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
    """The open connections, a bounded number: the HTTP server's, and those that are silent so far.

    Args:
        limit: connections that may have said something. SPARE more may be silent.
        idle_seconds: after which a connection that has said nothing is closed.
    """

    def __init__(self, limit: int, idle_seconds: float):
        self.limit = limit
        self.idle_seconds = idle_seconds
        self.silent: dict[SilentConnection, None] = {}  # the oldest first

    async def open(self, server: web.Server, host: str, port: int) -> asyncio.Server:
        """Listen for clients of an HTTP server; raises as `listen`."""
        self.server = server
        return await listen(lambda: SilentConnection(self), host, port)

    def close_silent(self) -> None:
        for connection in (*self.silent,):
            connection.close()

    @property
    def speaking(self) -> int:
        """The connections that have said something."""
        return len(self.server.connections)

    @property
    def crowded(self) -> bool:
        """Whether connections should be closed after an answer, not kept for a next request."""
        return self.speaking >= self.limit // 2

    def make_room(self) -> bool:
        """Whether one more connection can be open, if need be in the place of a silent one."""
        if self.speaking + len(self.silent) < self.limit + SPARE:
            return True
        oldest = next(iter(self.silent), None)
        if oldest is None or asyncio.get_running_loop().time() < oldest.arrived + GRACE:
            return False
        oldest.close()
        return True


class SilentConnection(asyncio.Protocol):
    """A connection that has said nothing so far; with its first bytes the HTTP server gets it."""

    def __init__(self, connections: Connections):
        self.connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self.connections.make_room():
            self.transport.close()
            return
        loop = asyncio.get_running_loop()
        self.arrived = loop.time()
        self.timer = loop.call_later(self.connections.idle_seconds, self.close)
        self.connections.silent[self] = None

    def data_received(self, data: bytes) -> None:
        if self.forget():
            protocol = self.connections.server()
            self.transport.set_protocol(protocol)
            protocol.connection_made(self.transport)
            protocol.data_received(data)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.forget()

    def close(self) -> None:
        self.forget()
        self.transport.close()

    def forget(self) -> bool:
        """Stop counting and timing the connection; False if it was not counted any more."""
        if self not in self.connections.silent:
            return False
        del self.connections.silent[self]
        self.timer.cancel()
        return True
