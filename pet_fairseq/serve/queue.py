"""The queue of waiting texts: bounded, and cut into batches by tokens, the oldest text first."""

import asyncio
from collections import deque
from typing import NamedTuple, Optional

from pet_fairseq.predict.batches import batch_around_first, batch_size


class Item(NamedTuple):
    """A text in the queue.

    Args:
        tokens: T. arrived: the event loop's seconds. request: the answers of all texts of its
            request, its own included.
    """

    tokens: list[int]
    arrived: float
    answer: asyncio.Future
    request: list[asyncio.Future]

    @property
    def length(self) -> int:
        return len(self.tokens)


class BatchQueue:
    """A queue for one event loop.

    A place is reserved before a text is tokenised, so that the bound holds for such texts, too.

    Args:
        capacity: texts that may wait. batch_tokens: the most tokens of a batch, padding included:
            its texts times the longest of them.
        by_length: whether the oldest text runs with those nearest to it in length, not in age.
    """

    def __init__(self, capacity: int, batch_tokens: int, by_length: bool = False):
        self.capacity = capacity
        self.batch_tokens = batch_tokens
        self.by_length = by_length
        self.items: deque[Item] = deque()
        self.reserved = 0
        self.closed = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Texts that wait, those without tokens yet included."""
        return len(self.items) + self.reserved

    @property
    def tokens(self) -> int:
        """Tokens that wait."""
        return sum(item.length for item in self.items)

    def is_full(self, count: int = 1) -> bool:
        """Whether `count` more texts have no place now."""
        if len(self) + count > self.capacity:
            self._drop_abandoned()
        return len(self) + count > self.capacity

    def reserve(self, count: int) -> None:
        """Keep places for texts that are to come."""
        self.reserved += count

    def release(self, count: int) -> None:
        """Give back reserved places."""
        self.reserved -= count
        self._changed.set()

    def put(self, texts: list[list[int]], arrived: float) -> list[asyncio.Future]:
        """Fill reserved places, and return the answers to come."""
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in texts]
        self.items.extend(
            Item(tokens, arrived, answer, answers) for tokens, answer in zip(texts, answers)
        )
        self.release(len(texts))
        return answers

    def close(self) -> None:
        """Take no more; what waits is still handed out."""
        self.closed = True
        self._changed.set()

    async def next_batch(self) -> Optional[list[Item]]:
        """The texts that run next, the oldest one first; None once it is closed and empty."""
        while True:
            self._drop_abandoned()
            if self.items:
                return self._take_batch()
            if self.closed and not self.reserved:
                return None
            self._changed.clear()
            await self._changed.wait()

    def _take_batch(self) -> list[Item]:
        """Take the oldest text from the queue, and more while they fit with their padding."""
        lengths = (item.length for item in self.items)
        if not self.by_length:
            size = batch_size(lengths, self.batch_tokens)
            return [self.items.popleft() for _ in range(size)]
        chosen = set(batch_around_first(list(lengths), self.batch_tokens))
        batch = [item for i, item in enumerate(self.items) if i in chosen]
        self.items = deque(item for i, item in enumerate(self.items) if i not in chosen)
        return batch

    def _drop_abandoned(self) -> None:
        """Forget texts whose client has gone."""
        if any(item.answer.done() for item in self.items):
            self.items = deque(item for item in self.items if not item.answer.done())
