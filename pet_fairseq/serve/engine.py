"""The engine: between the event loop's requests and the process that has the model."""

import asyncio
import logging
from typing import Optional

from pet_fairseq.predict.sentences import Sentences, TextError, TextTooLongError
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.model_process import (
    CallTooLongError,
    ModelProcess,
    ProcessEndedError,
)
from pet_fairseq.serve.queue import BatchQueue, Item
from pet_fairseq.serve.request import RequestError
from pet_fairseq.serve.scheduler import RatioScheduler
from pet_fairseq.serve.worker import ModelError

BROKEN = 3  # failed checks in a row after which the model counts as broken

logger = logging.getLogger(__name__)


class Engine:
    """Answers texts in batches, each at the ratio that the scheduler chooses for it."""

    def __init__(
        self, model: ModelProcess, queue: BatchQueue, scheduler: RatioScheduler, metrics: Metrics
    ):
        self.model = model
        self.queue = queue
        self.scheduler = scheduler
        self.metrics = metrics
        self.failed_checks = 0

    @property
    def broken(self) -> bool:
        """Whether the model, or its device, has failed for good."""
        return self.failed_checks >= BROKEN

    def why_not_ready(self) -> Optional[str]:
        """Why no texts can be answered now; None if they can."""
        if self.queue.closed:
            return "shutting down"
        if self.model.loading:
            return "the model is being loaded again"
        return "the model fails on every text" if self.broken else None

    async def submit(self, texts: list[Sentences]) -> list[dict]:
        """Answer the texts of a request, for which the queue must have places.

        Raises:
            RequestError: too long or empty texts, or the model failed on one.
        """
        arrived = asyncio.get_running_loop().time()
        self.queue.reserve(len(texts))
        try:
            encoded = await self._encode(texts)
        except BaseException:  # also when the client goes away
            self.queue.release(len(texts))
            raise
        answers = self.queue.put([tokens for tokens, _ in encoded], arrived)
        return [
            answer | {"truncated": True} if truncated else answer
            for answer, (_, truncated) in zip(await asyncio.gather(*answers), encoded)
        ]

    async def _encode(self, texts: list[Sentences]) -> list[tuple[list[int], bool]]:
        try:
            try:
                return await self.model.encode(texts)
            except ProcessEndedError:  # most likely because of a batch, not of these texts
                return await self.model.encode(texts)
        except TextError as error:
            status = 413 if isinstance(error, TextTooLongError) else 400
            raise RequestError(status, str(error)) from None
        except CallTooLongError as error:
            raise RequestError(504, f"texts: not tokenized {error}") from None

    async def run(self) -> None:
        """Work until the queue is closed and empty."""
        while batch := await self.queue.next_batch():
            await self._run_batch(batch)

    async def _run_batch(self, batch: list[Item]) -> None:
        tokens = sum(item.length for item in batch)
        oldest_wait = asyncio.get_running_loop().time() - batch[0].arrived
        ratio = self.scheduler.choose(self.queue.tokens + tokens, oldest_wait)
        try:
            answers, seconds = await self.model.answer([item.tokens for item in batch], ratio)
        except CallTooLongError as error:
            logger.error("a batch of %d texts at ratio %d was ended %s", len(batch), ratio, error)
            refuse(batch, RequestError(504, f"the batch of this text was ended {error}"))
        except (ModelError, ProcessEndedError) as error:
            logger.error("a batch of %d texts failed at ratio %d\n%s", len(batch), ratio, error)
            await self._after_failure(batch, ratio)
        else:
            self.failed_checks = 0
            self.scheduler.observe(ratio, tokens, seconds)
            self.metrics.count_batch(ratio, tokens)
            for item, answer in zip(batch, answers):
                if not item.answer.done():
                    item.answer.set_result({**answer, "ratio": ratio})

    async def _after_failure(self, batch: list[Item], ratio: int) -> None:
        """Find out which text the model failed on, and whether it fails on every text."""
        failed = RequestError(500, "the model failed on this text")
        if len(batch) == 1:
            refuse(batch, failed)
            await self._check_model(ratio)
            return
        for item in batch:
            if self.broken:
                refuse([item], failed)
            elif not item.answer.done():
                await self._run_batch([item])

    async def _check_model(self, ratio: int) -> None:
        """Count the failure if the model also fails on a text of its own words that nobody sent."""
        try:
            await self.model.check(ratio)
        except (ModelError, ProcessEndedError, CallTooLongError) as error:
            logger.error("the model fails on other texts, too\n%s", error)
            self.failed_checks += 1
        else:
            self.failed_checks = 0


def refuse(batch: list[Item], error: RequestError) -> None:
    """Refuse the requests of these texts: their other texts are not wanted any more."""
    for item in batch:
        for answer in item.request:
            if not answer.done():
                answer.set_exception(error)
