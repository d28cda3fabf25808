"""A server in the test's own process, whose model answers when it is told to."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import NamedTuple

import torch
from aiohttp import ClientSession

from pet_fairseq.predict.predictor import Encoded
from pet_fairseq.predict.sentences import TextTooLongError
from pet_fairseq.serve.app import make_runner
from pet_fairseq.serve.connections import Entrance
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.scheduler import Cost, RatioScheduler
from tests.serve.test_metrics import read_page


class HeldModel:
    """Answers with the number of words; stops before each batch until it is let go.

    It fails on every text of 13 words and, while it is `broken`, on every text.
    """

    max_tokens = 20
    broken = False

    def __init__(self):
        self.free = threading.Event()
        self.free.set()
        self.started = threading.Semaphore(0)
        self.batches = []

    def encode(self, sentences):
        words = " ".join(sentences).split()
        if len(words) > self.max_tokens:
            raise TextTooLongError("text: too long")
        return Encoded(torch.ones(len(words), dtype=torch.long), truncated="cut" in words)

    def random_text(self, length):
        return torch.ones(length, dtype=torch.long)

    def warm_up(self, texts, ratio):
        if self.broken:
            raise RuntimeError("broken")

    def answer(self, texts, ratio):
        self.started.release()
        assert self.free.wait(timeout=60)
        self.batches.append((ratio, [len(tokens) for tokens in texts]))
        if self.broken or any(len(tokens) == 13 for tokens in texts):
            raise RuntimeError("broken" if self.broken else "13 words")
        return [{"label": str(len(tokens))} for tokens in texts]


class Server(NamedTuple):
    """A server at work and a session of clients."""

    engine: Engine
    session: ClientSession
    address: tuple
    entrance: Entrance

    @property
    def model(self):
        return self.engine.model

    @property
    def queue(self):
        return self.engine.queue

    @property
    def connections(self):
        """Those that are open and not turned away."""
        return [*self.entrance.server.connections, *self.entrance.silent]

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
        assert await asyncio.to_thread(self.model.started.acquire, timeout=60)
        return task

    async def page(self):
        """What /metrics shows, by name and labels."""
        async with self.session.get("/metrics") as response:
            assert response.status == 200
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return read_page(await response.text())


def make_engine(capacity, batch_tokens, target, text_seconds):
    """Its costs are far above what a test takes, so that waiting tokens alone decide the ratio."""
    costs = {1: Cost(0.0, 1.0), 2: Cost(0.0, 0.7), 4: Cost(0.0, 0.4)}
    scheduler = RatioScheduler(costs, target, batch_tokens, headroom=1.0, memory=1e-9)
    queue = BatchQueue(capacity, batch_tokens)
    metrics = Metrics(target, 1)
    return Engine(HeldModel(), queue, scheduler, metrics, 30, text_seconds)


@contextlib.asynccontextmanager
async def running(
    capacity=100,
    batch_tokens=20,
    target=100.0,
    text_seconds=60.0,
    idle_seconds=60.0,
    connections=100,
) -> AsyncIterator[Server]:
    engine = make_engine(capacity, batch_tokens, target, text_seconds)
    entrance = Entrance(engine, connections, idle_seconds)
    runner = make_runner(engine, entrance, max_bytes=1000)
    await runner.setup()
    await entrance.open(runner.server, "127.0.0.1", 0)
    work = asyncio.create_task(engine.run())
    host, port = entrance.address
    try:
        async with ClientSession(f"http://{host}:{port}") as session:
            yield Server(engine, session, (host, port), entrance)
    finally:
        engine.model.free.set()
        entrance.close()
        engine.queue.close()
        await work
        await runner.cleanup()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)
