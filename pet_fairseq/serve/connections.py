"""Who may connect: a bounded number of clients, none of which keeps a place by saying nothing.

Everything else about connections is aiohttp's, or a proxy's.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import cast

from pet_fairseq.errors import UserError

BACKLOG = 1024  # connections that wait to be accepted; the kernel may allow fewer
AT_ONCE = 64  # connections that are accepted in a row before open ones have their turn
GRACE = 1.0  # seconds in which a client can say something, and can read why it is refused
SPARE = 256  # connections that may be open without a request, or while they are being closed
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
    """The open connections: those that have sent a request hold a place, the others do not.

    Args:
        limit: places.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.open: dict[asyncio.Transport, float] = {}  # by when they came; the oldest first
        self.holders: set[asyncio.Transport] = set()

    def add(self, transport: asyncio.Transport) -> bool:
        """Count a new connection, or return False if there are too many even without a place."""
        self._forget_closed()
        if len(self.open) >= self.limit + SPARE and not self._close_oldest():
            return False
        self.open[transport] = asyncio.get_running_loop().time()
        return True

    def _forget_closed(self) -> None:
        self.open = {t: arrived for t, arrived in self.open.items() if not t.is_closing()}
        self.holders &= self.open.keys()

    def _close_oldest(self) -> bool:
        """Close the oldest connection without a place; False if none has had time to speak."""
        oldest = next((t for t in self.open if t not in self.holders), None)
        if oldest is None or asyncio.get_running_loop().time() < self.open[oldest] + GRACE:
            return False
        oldest.close()
        del self.open[oldest]
        return True

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return sum(not transport.is_closing() for transport in self.holders)

    @property
    def crowded(self) -> bool:
        """Whether connections should be closed after an answer, not kept for a next request."""
        return self.taken >= self.limit // 2

    def take_place(self, transport: asyncio.Transport, limit: int) -> bool:
        """Whether a connection has a place, or now gets one because less than `limit` are taken."""
        if transport not in self.holders and self.taken >= limit:
            return False
        self.holders.add(transport)
        return True


class NewConnection(asyncio.Protocol):
    """Gives a connection to the HTTP server, unless there are too many.

    Args:
        make_protocol: makes the HTTP server's protocol.
    """

    def __init__(self, connections: Connections, make_protocol: Callable[[], asyncio.Protocol]):
        self.connections = connections
        self.make_protocol = make_protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        if not self.connections.add(transport):
            transport.close()
            return
        protocol = self.make_protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
