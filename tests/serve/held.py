"""A server in the test's own process, whose model answers when it is told to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from aiohttp import ClientSession

from pet_fairseq.predict.sentences import TextTooLongError
from pet_fairseq.serve.admission import Admission
from pet_fairseq.serve.app import make_runner
from pet_fairseq.serve.connections import Connections
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.scheduler import Cost, RatioScheduler
from pet_fairseq.serve.worker import ModelError
from tests.serve.test_metrics import read_page


class HeldModel:
    """Answers with the number of words; stops before each batch until it is let go.

    It fails on every text of 13 words and, while it is `broken`, on every text. The next call
    raises what `failures` holds.
    """

    max_tokens = 20
    broken = False
    loading = False

    def __init__(self):
        self.free = asyncio.Event()
        self.free.set()
        self.started = asyncio.Semaphore(0)
        self.batches = []
        self.failures = []

    async def encode(self, texts):
        if self.failures:
            raise self.failures.pop()
        words = [" ".join(sentences).split() for sentences in texts]
        if max(map(len, words)) > self.max_tokens or sum(map(len, words)) > 30:
            raise TextTooLongError("text: too long")
        return [([1] * len(some), "cut" in some) for some in words]

    async def answer(self, texts, ratio):
        self.started.release()
        await asyncio.wait_for(self.free.wait(), timeout=60)
        self.batches.append((ratio, [len(tokens) for tokens in texts]))
        if self.failures:
            raise self.failures.pop()
        if self.broken or any(len(tokens) == 13 for tokens in texts):
            raise ModelError("broken" if self.broken else "13 words")
        return [{"label": str(len(tokens))} for tokens in texts], 0.001

    async def check(self, ratio):
        if self.broken:
            raise ModelError("broken")


class Server(NamedTuple):
    """A server at work and a session of clients."""

    engine: Engine
    session: ClientSession
    address: tuple
    admission: Admission

    @property
    def model(self):
        return self.engine.model

    @property
    def queue(self):
        return self.engine.queue

    @property
    def connections(self):
        """Those that are open."""
        connections = self.admission.connections
        return [*connections.silent, *connections.server.connections]

    async def ask(self, texts, status=200):
        """Send one text or pair, or several; returns the answer after checking its status."""
        body = {"text": texts} if isinstance(texts, str) else texts
        body = {"texts": texts} if isinstance(texts, list) else body
        async with self.session.post("/predict", json=body) as response:
            assert response.status == status
            return await response.json()

    def start(self, *requests):
        """Ask without waiting for the answers."""
        return [asyncio.create_task(self.ask(texts)) for texts in requests]

    async def hold(self):
        """Let the model begin with a text of one word and stop there; returns that request."""
        self.model.free.clear()
        (task,) = self.start("a")
        await asyncio.wait_for(self.model.started.acquire(), timeout=60)
        return task

    async def page(self):
        """What /metrics shows, by name and labels."""
        async with self.session.get("/metrics") as response:
            assert response.status == 200
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return read_page(await response.text())


def make_engine(capacity, batch_tokens, target):
    """Its costs are far above what a test takes, so that waiting tokens alone decide the ratio."""
    costs = {1: Cost(0.0, 1.0), 2: Cost(0.0, 0.7), 4: Cost(0.0, 0.4)}
    scheduler = RatioScheduler(costs, target, batch_tokens, headroom=1.0, memory=1e-9)
    queue = BatchQueue(capacity, batch_tokens)
    return Engine(HeldModel(), queue, scheduler, Metrics(queue, target, 1))


@contextlib.asynccontextmanager
async def running(
    capacity=100, batch_tokens=20, target=100.0, idle_seconds=60.0, connections=100
) -> AsyncIterator[Server]:
    engine = make_engine(capacity, batch_tokens, target)
    counted = Connections(connections, idle_seconds)
    admission = Admission(engine.queue, engine.metrics, counted, max_bytes=1000)
    runner = make_runner(engine, admission)
    await runner.setup()
    listening = await counted.open(runner.server, admission.check_first, "127.0.0.1", 0)
    work = asyncio.create_task(engine.run())
    host, port = listening.sockets[0].getsockname()[:2]
    try:
        async with ClientSession(f"http://{host}:{port}") as session:
            yield Server(engine, session, (host, port), admission)
    finally:
        engine.model.free.set()
        listening.close()
        counted.close()
        engine.queue.close()
        await work
        await runner.cleanup()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)
