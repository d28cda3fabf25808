"""Who may connect: so many clients at once, and none that has stopped to read."""

import asyncio
import json
import socket

from aiohttp import web

# of a request's line and headers; aiohttp's own limits let 1 MB in
HEAD_LIMITS = {"max_line_size": 2048, "max_field_size": 4096, "max_headers": 64}
BACKLOG = 1024  # connections that wait to be taken; the kernel may allow fewer
GRACE = 1.0  # seconds in which a client that is turned away can read why
UNREAD_SECONDS = 30.0  # after which a client that takes nothing of its answers is cut off


async def listen(runner: web.AppRunner, host: str, port: int, most: int) -> asyncio.Server:
    """Open the port to at most so many connections; `runner` is set up.

    Raises:
        OSError: the address cannot be used.
    """
    loop = asyncio.get_running_loop()
    connections = Connections(runner.server, most)
    # in a short queue of the kernel clients would be forgotten while the event loop is busy
    listener = await loop.create_server(connections, host, port, backlog=max(most, BACKLOG))
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections take it over from their listener
        for end in listener.sockets:
            milliseconds = int(1000 * UNREAD_SECONDS)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return listener


class Connections:
    """Makes the protocol of each new connection.

    Args:
        server: aiohttp's. most: connections at once.
    """

    def __init__(self, server: web.Server, most: int):
        self.server = server
        self.most = most

    def __call__(self) -> asyncio.Protocol:
        if len(self.server.connections) >= self.most:
            return TurnedAway(f"{self.most} connections are open, more are not taken")
        return self.server()


class TurnedAway(asyncio.Protocol):
    """Answers a connection with status 503, whatever it sends, and closes it."""

    def __init__(self, why: str):
        body = json.dumps({"error": why})
        self.answer = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n{body}"
        )

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.write(self.answer.encode())
        # closed at once, with something unread, the answer would be lost
        asyncio.get_running_loop().call_later(GRACE, transport.close)
