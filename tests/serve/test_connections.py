"""Who may connect, for how long, and with what head; on the server with the held model."""

import asyncio
import contextlib
import itertools
import json
import socket

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.serve import connections
from tests.serve.held import running, until


async def read_all(reader, seconds=60):
    """What comes until the server closes the connection."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), seconds)
    return b""


async def connect(server):
    return await asyncio.open_connection(*server.address)


async def refusal(reader, seconds=60):
    """Why the server refuses a client; it closes the connection behind the answer."""
    head, _, body = (await read_all(reader, seconds)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1\r\n" in head
    assert b"\r\nConnection: close" in head
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    return json.loads(body)["error"]


async def status_of(server, request):
    """The status of a request in a connection of its own."""
    reader, writer = await connect(server)
    writer.write(request + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await read_all(reader)
    writer.close()
    return int(answer.split()[1])


def test_more_connections_than_allowed_are_told_so():
    async def main():
        async with running(connections=3) as server:
            silent = [await connect(server) for _ in range(3)]
            await until(lambda: len(server.connections) == 3)
            reader, writer = await connect(server)
            writer.write(b"POST /predict HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await refusal(reader) == "3 connections are open, more are not taken"
            silent[0][1].close()
            await until(lambda: len(server.connections) == 2)
            assert await status_of(server, b"GET /health") == 200

    asyncio.run(main())


def test_who_has_left_already_is_not_told():
    """A client that is gone before its turn makes no error in the log."""
    errors = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with running(connections=2) as server:
            silent = [await connect(server) for _ in range(2)]
            await until(lambda: len(server.connections) == 2)
            for _ in range(5):  # the event loop does nothing meanwhile
                socket.create_connection(server.address, timeout=20).close()
            await asyncio.sleep(0.2)
            silent[0][1].close()
            await until(lambda: len(server.connections) == 1)
            assert await status_of(server, b"GET /health") == 200

    asyncio.run(main())
    assert not errors


def test_a_crowd_comes_in_by_and_by(monkeypatch):
    """While it waits at the door those who are in have their turns."""
    monkeypatch.setattr(connections, "AT_ONCE", 8)

    async def main():
        async with running(connections=200) as server:
            # the event loop does nothing meanwhile
            crowd = [socket.create_connection(server.address, timeout=20) for _ in range(60)]
            inside = [0]
            while inside[-1] < 60:
                await asyncio.sleep(0)
                inside.append(len(server.connections))
            assert max(b - a for a, b in itertools.pairwise(inside)) <= 2 * 8
            for client in crowd:
                client.close()

    asyncio.run(main())


def test_who_says_nothing_makes_room(monkeypatch):
    monkeypatch.setattr(connections, "GRACE", 0.2)

    async def main():
        async with running(connections=3) as server:
            silent = [await connect(server) for _ in range(3)]
            await until(lambda: len(server.connections) == 3)
            await asyncio.sleep(0.3)
            assert (await server.ask("a"))["label"] == "1"
            assert (await refusal(silent[0][0])).startswith("nothing was said")
            for _, writer in silent[1:]:  # these are still open
                writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            for reader, _ in silent[1:]:
                assert b" 200 OK" in await read_all(reader)

    asyncio.run(main())


def test_a_full_queue_refuses_texts_before_they_are_read():
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n"

    async def main():
        async with running(capacity=2) as server:
            open_reader, open_writer = await connect(server)
            open_writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 OK" in await open_reader.readuntil(b"\r\n\r\n")
            await open_reader.readuntil(b"}")
            tasks = [await server.hold(), *server.start(["a", "a"])]
            await until(lambda: len(server.queue) == 2)
            reader, writer = await connect(server)
            writer.write(head)  # the body never comes
            assert await asyncio.wait_for(refusal(reader), timeout=5) == "the queue is full"
            open_writer.write(head)
            answer = await asyncio.wait_for(open_reader.readuntil(b"}"), timeout=5)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"the queue is full" in answer
            open_writer.close()
            assert server.engine.metrics.requests == {503: 2}
            for path in (b"GET /health", b"GET /metrics"):
                assert await status_of(server, path) == 200
            server.model.free.set()
            await asyncio.gather(*tasks)
            assert (await server.ask("a"))["label"] == "1"

    asyncio.run(main())


def test_texts_leave_connections_to_others():
    async def main():
        async with running(connections=8) as server:
            tasks = [await server.hold(), *server.start(*["a b"] * 6)]
            await until(lambda: len(server.queue) == 6)
            reader, writer = await connect(server)
            writer.write(b"POST /predict HTTP/1.1\r\nHost: x\r\n\r\n")
            message = "7 connections with texts are open, more are not taken"
            assert await refusal(reader) == message
            assert await status_of(server, b"GET /health") == 200
            server.model.free.set()
            await asyncio.gather(*tasks)

    asyncio.run(main())


def test_connections_are_kept_open_only_while_there_is_room():
    async def main():
        async with running(connections=4) as server:
            async with server.session.post("/predict", json={"text": "a"}) as response:
                assert "Connection" not in response.headers
            assert len(server.connections) == 1
            _, writer = await connect(server)
            writer.write(b"GET /health")
            await until(lambda: len(server.connections) == 2)
            async with server.session.post("/predict", json={"text": "a"}) as response:
                assert response.headers["Connection"] == "close"
            await until(lambda: len(server.connections) == 1)

    asyncio.run(main())


def test_few_of_those_that_are_refused_are_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "GRACE", 60.0)
    monkeypatch.setattr(connections, "MOST_REFUSED", 2)

    async def main():
        async with running(connections=1) as server:
            kept = await connect(server)
            await until(lambda: len(server.connections) == 1)
            others = [await asyncio.to_thread(socket.create_connection, server.address)]
            for number in range(1, 5):
                await until(lambda n=number: len(server.admission.connections.refused) == min(n, 2))
                others.append(await asyncio.to_thread(socket.create_connection, server.address))
            for client in others:  # none of them is closed by its client
                client.settimeout(60)
                assert (await asyncio.to_thread(client.recv, 20)).startswith(b"HTTP/1.1 503 ")
            assert len(server.admission.connections.refused) == 2
            for client in others:
                client.close()
            await until(lambda: not server.admission.connections.refused)
            kept[1].close()

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


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_host_that_cannot_be_a_name(host):
    with pytest.raises(UserError, match=f"--host {host}: no name of a host; give an address"):
        asyncio.run(connections.check_address(host, 0))
