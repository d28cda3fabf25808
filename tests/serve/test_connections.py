"""Who may connect, for how long, and with what head; on the server with the held model."""

import asyncio
import contextlib
import json
import socket

import pytest

from pet_fairseq.serve import connections
from tests.serve.held import running, until


async def read_all(reader, seconds=60):
    """What comes until the server closes the connection."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), seconds)
    return b""


async def connect(server):
    return await asyncio.open_connection(*server.address)


def test_more_connections_than_allowed_are_told_so(monkeypatch):
    monkeypatch.setattr(connections, "GRACE", 0.05)

    async def main():
        async with running(connections=3) as server:
            await server.ask("a")  # keeps its connection open: the first one
            idle = [await connect(server) for _ in range(2)]
            reader, writer = await connect(server)
            writer.write(b"POST /predict HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _, body = (await read_all(reader)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in head
            assert f"Content-Length: {len(body)}".encode() in head
            assert json.loads(body) == {"error": "3 connections are open, more are not taken"}
            await server.ask("a b")
            idle[0][1].close()
            await until(lambda: len(server.connections) == 2)
            reader, writer = await connect(server)
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 200 OK" in await read_all(reader)

    asyncio.run(main())


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"POST /predict HTTP/1.1\r\nHost: x\r\n",  # the rest of the head never comes
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",  # nor does another request
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /hea",
    ],
)
def test_idle_connections_are_closed(first):
    async def main():
        async with running(idle_seconds=0.1) as server:
            reader, writer = await connect(server)
            writer.write(first)
            await read_all(reader, seconds=30)
            await until(lambda: not server.connections)

    asyncio.run(main())


@pytest.mark.parametrize(
    "line, header",
    [
        ("POST /predict", "X: " + "a" * 5000),
        ("POST /predict?" + "a" * 3000, "X: a"),
        ("POST /predict", "\r\n".join(f"X{n}: a" for n in range(100))),
    ],
)
def test_large_heads(line, header):
    async def main():
        async with running() as server:
            reader, writer = await connect(server)
            writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
            assert b" 400 " in await asyncio.wait_for(reader.readline(), timeout=60)
            writer.close()
            assert (await server.ask("a"))["label"] == "1"

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="a setting of Linux")
def test_a_client_that_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.5)
    question = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

    async def main():
        async with running(idle_seconds=0.1) as server:
            _, writer = await connect(server)
            writer.transport.pause_reading()
            for _ in range(200):  # far more answers than the two ends have buffers for
                writer.write(question * 100)
            await until(lambda: len(server.connections) == 1)
            await asyncio.wait_for(until(lambda: not server.connections), timeout=60)
            writer.transport.abort()
            assert (await server.ask("a"))["label"] == "1"

    asyncio.run(main())
