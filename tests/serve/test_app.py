"""The server with a model that can be held: statuses, batches, ratios, and what is counted."""

import asyncio
import gzip
import json
from types import SimpleNamespace

import pytest

from pet_fairseq.serve import app
from pet_fairseq.serve.admission import Admission
from pet_fairseq.serve.model_process import CallTooLongError, ProcessEndedError
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.request import RequestError
from tests.serve.held import running, until
from tests.serve.test_request import REFUSED

REQUESTS = "pet_fairseq_requests_total"


def raw(body):
    """A request as bytes."""
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_answers():
    async def main():
        async with running() as server:
            assert await server.ask("a b c") == {"label": "3", "ratio": 1}
            assert await server.ask(["a", "a b"]) == {
                "answers": [{"label": "1", "ratio": 1}, {"label": "2", "ratio": 1}]
            }
            async with server.session.get("/health") as response:
                assert await response.json() == {"status": "ok", "ratios": [1, 2, 4]}
            values = await server.page()
            assert values[REQUESTS + '{status="200"}'] == 2
            assert values["pet_fairseq_latency_seconds_count"] == 2
            assert 0 < values['pet_fairseq_latency_seconds{quantile="0.5"}'] < 60

    asyncio.run(main())


def test_pairs_and_texts_that_were_cut():
    async def main():
        async with running() as server:
            pair = {"text": "a b", "pair": "c"}
            assert await server.ask(pair) == {"label": "3", "ratio": 1}
            assert await server.ask([pair, "a cut", {"text": "a"}]) == {
                "answers": [
                    {"label": "3", "ratio": 1},
                    {"label": "2", "ratio": 1, "truncated": True},
                    {"label": "1", "ratio": 1},
                ]
            }

    asyncio.run(main())


def test_waiting_requests_share_batches_and_the_ratio_follows_the_queue():
    async def main():
        async with running(target=30.0) as server:
            tasks = [await server.hold()]
            tasks += server.start(*["a b c d e f"] * 10)  # 60 tokens, too many for ratio 2
            await until(lambda: server.queue.tokens == 60)
            values = await server.page()
            assert values["pet_fairseq_queue_texts"] == 10
            assert values["pet_fairseq_queue_tokens"] == 60
            server.model.free.set()
            ratios = [answer["ratio"] for answer in await asyncio.gather(*tasks)]
            batches = [(1, [1]), (4, [6] * 3), (2, [6] * 3), (1, [6] * 3), (1, [6])]
            assert server.model.batches == batches
            assert sorted(ratios) == [1] * 5 + [2] * 3 + [4] * 3
            values = await server.page()
            for ratio, count, tokens in ((1, 3, 25), (2, 1, 18), (4, 1, 18)):
                assert values[f'pet_fairseq_batches_total{{ratio="{ratio}"}}'] == count
                assert values[f'pet_fairseq_tokens_total{{ratio="{ratio}"}}'] == tokens
            assert values["pet_fairseq_ratio"] == 1

    asyncio.run(main())


def test_a_full_queue():
    async def main():
        async with running(capacity=3) as server:
            tasks = [await server.hold(), *server.start(["a b", "a"])]
            await until(lambda: server.queue.tokens == 3)
            async with server.session.post("/predict", json={"texts": ["a", "a"]}) as response:
                assert response.status == 503
                assert response.headers["Retry-After"] == "1"
                assert await response.json() == {"error": "the queue is full"}
            tasks += server.start("a b c")  # one place is left
            await until(lambda: server.queue.tokens == 6)
            await server.ask("a", status=503)
            server.model.free.set()
            await asyncio.gather(*tasks)
            values = await server.page()
            assert values[REQUESTS + '{status="503"}'] == 2
            assert values[REQUESTS + '{status="200"}'] == 3
            assert values["pet_fairseq_queue_texts"] == 0
            await server.ask("a")

    asyncio.run(main())


def test_places():
    async def main():
        queue = BatchQueue(capacity=4, batch_tokens=10)
        admission = Admission(queue, SimpleNamespace(), SimpleNamespace(), max_bytes=1)
        queue.reserve(3)
        admission.check_places(1)
        refused = []
        for count in (2, 5):
            with pytest.raises(RequestError) as error:
                admission.check_places(count)
            refused.append((error.value.status, str(error.value)))
        queue.close()
        with pytest.raises(RequestError) as error:
            admission.check_places(1)
        return [*refused, (error.value.status, str(error.value))]

    assert asyncio.run(main()) == [
        (503, "the queue is full"),
        (413, "texts: 5 are more than the queue holds (4)"),
        (503, "the server is shutting down"),
    ]


async def in_pieces(piece, count):
    for _ in range(count):
        yield piece


GZIP = {"Content-Encoding": "gzip"}
BAD = [
    *((400, lambda body=body: {"data": body}) for body, _ in REFUSED if len(body) <= 1000),
    (413, lambda: {"data": b'{"text": "' + b"a" * 1000 + b'"}'}),
    (413, lambda: {"data": in_pieces(b" " * 400, 3)}),  # chunked: no length is announced
    (415, lambda: {"data": gzip.compress(b'{"text": "a"}'), "headers": GZIP}),
    (413, lambda: {"json": {"text": "a " * 21}}),
    (413, lambda: {"json": {"texts": ["a " * 16, "a " * 15]}}),
    (413, lambda: {"json": {"texts": ["a"] * 101}}),
]


def test_bad_requests_change_nothing():
    async def main():
        async with running() as server:
            await server.ask("a b c")
            before = await server.page()
            counted = {}
            for status, make in BAD:
                async with server.session.post("/predict", **make()) as response:
                    assert response.status == status
                    assert set(await response.json()) == {"error"}
                counted[status] = counted.get(status, 0) + 1
            after = await server.page()
            for status, count in counted.items():
                assert after.pop(f'{REQUESTS}{{status="{status}"}}') == count
            assert after == before
            assert server.queue.reserved == 0
            assert server.model.batches == [(1, [3])]
            assert (await server.ask("a b"))["label"] == "2"

    asyncio.run(main())


@pytest.mark.parametrize(
    "method, path, status", [("GET", "/predict", 405), ("POST", "/metrics", 405), ("GET", "/", 404)]
)
def test_other_routes(method, path, status):
    async def main():
        async with running() as server:
            await server.ask("a")
            before = await server.page()
            async with server.session.request(method, path) as response:
                assert response.status == status
            assert await server.page() == before

    asyncio.run(main())


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (raw(b'{"text": "a"}')[:-1], b" 408 "),  # the last byte never comes
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b" 413 "),
        (
            b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
            b" 400 ",
        ),
        (b"\x00\xff\xfe\r\n\r\n", b" 400 "),
    ],
)
def test_broken_http(request_bytes, status, monkeypatch):
    monkeypatch.setattr(app, "BODY_SECONDS", 0.05)

    async def main():
        async with running() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(request_bytes)
            assert status in await asyncio.wait_for(reader.readline(), timeout=60)
            writer.close()
            await server.ask("a")
            assert server.model.batches == [(1, [1])]

    asyncio.run(main())


def test_a_model_that_fails_on_a_batch(caplog):
    async def main():
        async with running() as server:
            refused = await server.ask("a " * 13, status=500)
            assert refused == {"error": "the model failed on this text"}
            assert (await server.ask("a"))["label"] == "1"
            assert (await server.page())[REQUESTS + '{status="500"}'] == 1

    asyncio.run(main())
    assert "13 words" in caplog.text


def test_a_text_that_fails_does_not_fail_its_batch():
    async def main():
        async with running() as server:
            tasks = [await server.hold(), *server.start("a b", "a b c")]
            failing = asyncio.create_task(server.ask("a " * 13, status=500))
            tasks += server.start("a b c d")
            await until(lambda: server.queue.tokens == 22)
            server.queue.batch_tokens = 100  # all of them together
            server.model.free.set()
            answers = await asyncio.gather(*tasks)
            assert [answer["label"] for answer in answers] == ["1", "2", "3", "4"]
            assert await failing == {"error": "the model failed on this text"}
            batches = [lengths for _, lengths in server.model.batches]
            assert sorted(batches[1]) == [2, 3, 4, 13]
            assert sorted(batches[2:]) == [[2], [3], [4], [13]]

    asyncio.run(main())


async def health(server):
    async with server.session.get("/health") as response:
        return response.status, (await response.json())["status"]


def test_health_ends_with_the_model():
    """A text that cannot be answered says nothing about the others; a dead device does."""

    async def main():
        async with running() as server:
            for _ in range(5):
                await server.ask("a " * 13, status=500)
            assert await health(server) == (200, "ok")
            server.model.broken = True
            await server.ask("a", status=500)
            assert await health(server) == (200, "ok")  # once is no rule
            await server.ask("a", status=500)
            await server.ask("a", status=500)
            # the server checks its model behind the answer
            for _ in range(500):
                if await health(server) != (200, "ok"):
                    break
                await asyncio.sleep(0.01)
            assert await health(server) == (503, "the model fails on every text")
            server.model.broken = False
            await server.ask("a")
            assert await health(server) == (200, "ok")

    asyncio.run(main())


def test_a_dead_device_is_not_asked_for_every_text_of_a_batch():
    async def main():
        async with running() as server:
            server.model.free.clear()
            first = asyncio.create_task(server.ask("a b", status=500))
            await asyncio.wait_for(server.model.started.acquire(), timeout=60)
            server.model.broken = True
            others = [asyncio.create_task(server.ask("a", status=500)) for _ in range(10)]
            await until(lambda: server.queue.tokens == 10)
            server.model.free.set()
            await asyncio.gather(first, *others)
            assert [lengths for _, lengths in server.model.batches] == [[2], [1] * 10, [1], [1]]
            assert await health(server) == (503, "the model fails on every text")

    asyncio.run(main())


def test_a_batch_that_takes_too_long():
    """Its requests get status 504, those that wait get answers, and nobody asks its texts again."""

    async def main():
        async with running() as server:
            server.model.free.clear()
            late = [asyncio.create_task(server.ask("a", status=504))]
            await asyncio.wait_for(server.model.started.acquire(), timeout=60)
            others = server.start("a b", "a b c")
            await until(lambda: server.queue.tokens == 5)
            server.model.failures.append(CallTooLongError("after 7 seconds"))
            server.model.free.set()
            assert await late[0] == {"error": "the batch of this text was ended after 7 seconds"}
            assert [answer["label"] for answer in await asyncio.gather(*others)] == ["2", "3"]
            assert server.model.batches == [(1, [1]), (1, [2, 3])]
            assert (await server.page())[REQUESTS + '{status="504"}'] == 1
            assert await health(server) == (200, "ok")

    asyncio.run(main())


def test_the_other_texts_of_a_refused_request_are_not_run():
    """Were they to hang, too, each of their batches would end a process."""

    async def main():
        async with running(batch_tokens=20) as server:
            await server.hold()
            (task,) = [asyncio.create_task(server.ask(["a b c d e f g h i"] * 3, status=504))]
            await until(lambda: len(server.queue.items) == 3)
            server.model.free.set()
            await asyncio.wait_for(server.model.started.acquire(), timeout=60)
            server.model.failures.append(CallTooLongError("after 7 seconds"))
            await task
            assert (await server.ask("a b"))["label"] == "2"
            assert server.model.batches == [(1, [1]), (1, [9, 9]), (1, [2])]

    asyncio.run(main())


def test_texts_of_a_batch_whose_process_ended_are_asked_again(caplog):
    async def main():
        async with running() as server:
            server.model.free.clear()
            (task,) = server.start(["a b", "a b c"])
            await asyncio.wait_for(server.model.started.acquire(), timeout=60)
            server.model.failures.append(ProcessEndedError("status -9"))
            server.model.free.set()
            assert [answer["label"] for answer in (await task)["answers"]] == ["2", "3"]
            assert server.model.batches == [(1, [2, 3]), (1, [2]), (1, [3])]

    asyncio.run(main())
    assert "status -9" in caplog.text


def test_texts_are_tokenised_again_when_a_batch_ended_the_process():
    async def main():
        async with running() as server:
            server.model.failures.append(ProcessEndedError("status -9"))
            assert (await server.ask("a b"))["label"] == "2"
            server.model.failures.append(CallTooLongError("after 7 seconds"))
            refused = await server.ask("a b", status=504)
            assert refused == {"error": "texts: not tokenized after 7 seconds"}
            assert server.queue.reserved == 0

    asyncio.run(main())


def test_health_while_the_model_is_loaded_again():
    async def main():
        async with running() as server:
            server.model.loading = True
            assert await health(server) == (503, "the model is being loaded again")
            server.model.loading = False
            assert await health(server) == (200, "ok")

    asyncio.run(main())


def test_a_client_that_goes_away():
    async def main():
        async with running() as server:
            tasks = [await server.hold()]
            _, writer = await asyncio.open_connection(*server.address)
            writer.write(raw(json.dumps({"text": "a b c d"}).encode()))
            await until(lambda: server.queue.tokens == 4)
            writer.close()
            await until(lambda: server.engine.metrics.requests[app.GONE])
            tasks += server.start("a b")
            await until(lambda: server.queue.tokens == 6)
            server.model.free.set()
            await asyncio.gather(*tasks)
            assert server.model.batches == [(1, [1]), (1, [2])]

    asyncio.run(main())


def test_a_client_that_goes_away_in_the_middle_of_a_body(caplog):
    async def main():
        async with running() as server:
            for ended in (False, True):
                _, writer = await asyncio.open_connection(*server.address)
                writer.write(raw(b'{"text": "a b"}')[:-4])
                await until(lambda: server.connections)
                await asyncio.sleep(0.05)  # the server waits for the rest
                writer.write_eof() if ended else writer.transport.abort()
                await until(lambda: not server.connections)
            assert server.engine.metrics.requests == {app.GONE: 2}
            assert (await server.ask("a"))["label"] == "1"

    asyncio.run(main())
    assert "failed" not in caplog.text


def test_shutting_down():
    async def main():
        async with running() as server:
            tasks = [await server.hold(), *server.start("a b", "a b c")]
            await until(lambda: server.queue.tokens == 5)
            server.queue.close()
            assert "shutting down" in (await server.ask("a", status=503))["error"]
            async with server.session.get("/health") as response:
                assert response.status == 503
            server.model.free.set()
            answers = await asyncio.gather(*tasks)
            assert [answer["label"] for answer in answers] == ["1", "2", "3"]

    asyncio.run(main())
