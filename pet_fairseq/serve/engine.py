"""The engine: one thread for text, one for the model, the event loop between them."""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from torch import Tensor

from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.model import ServedModel
from pet_fairseq.serve.queue import BatchQueue, Item
from pet_fairseq.serve.request import RequestError
from pet_fairseq.serve.scheduler import RatioScheduler

logger = logging.getLogger(__name__)


class Engine:
    """Answers texts in batches, each at the ratio that the scheduler chooses for it.

    Args:
        max_tokens: of all texts in a request.
    """

    def __init__(
        self,
        model: ServedModel,
        queue: BatchQueue,
        scheduler: RatioScheduler,
        metrics: Metrics,
        max_tokens: int,
    ):
        self.model = model
        self.queue = queue
        self.scheduler = scheduler
        self.metrics = metrics
        self.max_tokens = max_tokens
        self.text_thread = ThreadPoolExecutor(1, "text")
        self.model_thread = ThreadPoolExecutor(1, "model")

    async def submit(self, texts: list[str]) -> list[dict]:
        """Answer the texts of a request.

        Raises:
            RequestError: too long or empty texts, a full queue, or the model failed on the batch.
        """
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        self.queue.reserve(len(texts))
        try:
            tokens = await loop.run_in_executor(self.text_thread, self.encode, texts)
        except BaseException:  # also when the client goes away
            self.queue.release(len(texts))
            raise
        return await asyncio.gather(*self.queue.put(tokens, arrived))

    def encode(self, texts: list[str]) -> list[Tensor]:
        """Encode the texts of a request.

        Raises:
            RequestError: they are too long, alone or together, or empty.
        """
        encoded = []
        left = self.max_tokens
        for text in texts:
            encoded.append(self.model.encode(text))
            left -= len(encoded[-1])
            if left < 0:
                raise RequestError(413, f"texts: more than {self.max_tokens} tokens together")
        return encoded

    async def run(self) -> None:
        """Work until the queue is closed and empty."""
        while batch := await self.queue.next_batch():
            await self._run_batch(batch)
        self.text_thread.shutdown()
        self.model_thread.shutdown()

    async def _run_batch(self, batch: list[Item]) -> None:
        loop = asyncio.get_running_loop()
        tokens = sum(item.length for item in batch)
        oldest_wait = loop.time() - batch[0].arrived
        ratio = self.scheduler.choose(self.queue.tokens + tokens, oldest_wait)
        texts = [item.tokens for item in batch]
        try:
            answers, seconds = await loop.run_in_executor(
                self.model_thread, self._timed, texts, ratio
            )
        except Exception:
            logger.exception("a batch of %d texts failed at ratio %d", len(batch), ratio)
            refuse(batch)
            return
        self.scheduler.observe(ratio, tokens, seconds)
        self.metrics.count_batch(ratio, tokens)
        for item, answer in zip(batch, answers):
            if not item.answer.done():
                item.answer.set_result({**answer, "ratio": ratio})

    def _timed(self, texts: list[Tensor], ratio: int) -> tuple[list[dict], float]:
        start = time.perf_counter()
        answers = self.model.answer(texts, ratio)
        return answers, time.perf_counter() - start


def refuse(batch: list[Item]) -> None:
    """Tell the clients of a batch that the model failed on it."""
    for item in batch:
        if not item.answer.done():
            item.answer.set_exception(RequestError(500, "the model failed on this text's batch"))
