"""The engine: one thread for text, one for the model, the event loop between them."""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from torch import Tensor

from pet_fairseq.predict.predictor import Encoded, Predictor
from pet_fairseq.predict.sentences import Sentences, TextError, TextTooLongError
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.queue import BatchQueue, Item
from pet_fairseq.serve.request import RequestError
from pet_fairseq.serve.scheduler import RatioScheduler
from pet_fairseq.serve.timed_thread import TimedThread

BROKEN = 3  # failed checks in a row after which the model counts as broken
CHECKED = 8  # tokens of the text on which a check runs the model

logger = logging.getLogger(__name__)


class Engine:
    """Answers texts in batches, each at the ratio that the scheduler chooses for it.

    Args:
        max_tokens: of all texts in a request. text_seconds: how long tokenising these may take.
    """

    def __init__(
        self,
        model: Predictor,
        queue: BatchQueue,
        scheduler: RatioScheduler,
        metrics: Metrics,
        max_tokens: int,
        text_seconds: float,
    ):
        self.model = model
        self.queue = queue
        self.scheduler = scheduler
        self.metrics = metrics
        self.max_tokens = max_tokens
        self.text_thread = TimedThread("text", text_seconds)
        self.model_thread = ThreadPoolExecutor(1, "model")
        self.failed_checks = 0

    @property
    def broken(self) -> bool:
        """Whether the model, or its device, has failed for good."""
        return self.failed_checks >= BROKEN

    async def submit(self, texts: list[Sentences]) -> list[dict]:
        """Answer the texts of a request.

        Raises:
            RequestError: too long or empty texts, a full queue, or the model failed on one.
        """
        arrived = asyncio.get_running_loop().time()
        self.queue.reserve(len(texts))
        try:
            encoded = await self._encode(texts)
        except BaseException:  # also when the client goes away
            self.queue.release(len(texts))
            raise
        answers = self.queue.put([text.tokens for text in encoded], arrived)
        return [text.mark(answer) for text, answer in zip(encoded, await asyncio.gather(*answers))]

    async def _encode(self, texts: list[Sentences]) -> list[Encoded]:
        try:
            return await self.text_thread.call(self.encode, texts)
        except TextError as error:
            status = 413 if isinstance(error, TextTooLongError) else 400
            raise RequestError(status, str(error)) from None
        except TimeoutError:
            seconds = f"{self.text_thread.seconds:g} seconds"
            raise RequestError(
                413, f"texts: not divided into tokens after {seconds}; send less, or shorter words"
            ) from None

    def encode(self, texts: list[Sentences]) -> list[Encoded]:
        """Encode the texts of a request.

        Raises:
            TextError: they are too long, alone or together, or empty.
        """
        encoded = []
        left = self.max_tokens
        for text in texts:
            encoded.append(self.model.encode(text))
            left -= len(encoded[-1].tokens)
            if left < 0:
                raise TextTooLongError(f"texts: more than {self.max_tokens} tokens together")
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
            await self._after_failure(batch, ratio)
            return
        self.failed_checks = 0
        self.scheduler.observe(ratio, tokens, seconds)
        self.metrics.count_batch(ratio, tokens)
        for item, answer in zip(batch, answers):
            if not item.answer.done():
                item.answer.set_result({**answer, "ratio": ratio})

    def _timed(self, texts: list[Tensor], ratio: int) -> tuple[list[dict], float]:
        start = time.perf_counter()
        answers = self.model.answer(texts, ratio)
        return answers, time.perf_counter() - start

    async def _after_failure(self, batch: list[Item], ratio: int) -> None:
        """Find out which text the model failed on, and whether it fails on every text."""
        if len(batch) == 1:
            refuse(batch[0])
            await self._check_model(ratio)
            return
        for item in batch:
            if self.broken:
                refuse(item)
            elif not item.answer.done():
                await self._run_batch([item])

    async def _check_model(self, ratio: int) -> None:
        """Count the failure if the model also fails on a text of its own words that nobody sent."""
        loop = asyncio.get_running_loop()
        text = self.model.random_text(min(CHECKED, self.model.max_tokens))
        try:
            await loop.run_in_executor(self.model_thread, self.model.warm_up, [text], ratio)
        except Exception:
            logger.exception("the model fails on other texts, too")
            self.failed_checks += 1
        else:
            self.failed_checks = 0


def refuse(item: Item) -> None:
    """Tell the client that the model failed on its text."""
    if not item.answer.done():
        item.answer.set_exception(RequestError(500, "the model failed on this text"))
