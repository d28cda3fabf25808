"""The queue: its bound, its order, how batches are cut, and its end."""

import asyncio
import itertools
import random

import pytest

from pet_fairseq.serve.queue import BatchQueue


def fill(queue, lengths, arrived=0.0):
    queue.reserve(len(lengths))
    return queue.put([[0] * n for n in lengths], arrived)


async def drain(queue):
    """The lengths in each batch, to the end."""
    queue.close()
    batches = []
    while batch := await queue.next_batch():
        batches.append([item.length for item in batch])
    return batches


@pytest.mark.parametrize(
    "lengths, expected",
    [
        ([5, 5, 5], [[5, 5], [5]]),
        ([2, 2, 2, 2, 2, 2], [[2] * 5, [2]]),
        ([4, 1, 1], [[4, 1], [1]]),  # the third would make 12 with its padding
        ([1, 1, 4], [[1, 1], [4]]),
        ([30, 1], [[30], [1]]),
        ([], []),
    ],
)
def test_batches_of_ten_tokens(lengths, expected):
    async def main():
        queue = BatchQueue(capacity=10, batch_tokens=10)
        if lengths:
            fill(queue, lengths)
        return await drain(queue)

    assert asyncio.run(main()) == expected


def test_batches_are_as_large_as_they_can_be():
    lengths = [random.randint(1, 30) for _ in range(200)]

    async def main():
        queue = BatchQueue(capacity=200, batch_tokens=64)
        fill(queue, lengths)
        return await drain(queue)

    batches = asyncio.run(main())
    assert [*itertools.chain(*batches)] == lengths
    for batch, after in itertools.pairwise(batches):
        assert len(batch) * max(batch) <= 64
        longer = [*batch, after[0]]
        assert len(longer) * max(longer) > 64


def test_the_oldest_runs_with_those_of_its_length():
    """Against a choice by hand: of what waits, one after the other the nearest that still fits."""
    lengths = [random.randint(1, 30) for _ in range(120)]

    async def main():
        queue = BatchQueue(capacity=200, batch_tokens=64, by_length=True)
        fill(queue, lengths[:60], arrived=1.0)
        fill(queue, lengths[60:], arrived=2.0)
        queue.close()
        batches = []
        while batch := await queue.next_batch():
            batches.append([(item.arrived, item.length) for item in batch])
        return batches

    waiting = [(1.0 if i < 60 else 2.0, n) for i, n in enumerate(lengths)]
    for batch in asyncio.run(main()):
        oldest = waiting[0]
        chosen = []
        for item in sorted(waiting, key=lambda item: abs(item[1] - oldest[1])):
            longest = max(n for _, n in [*chosen, item])
            if chosen and longest * (len(chosen) + 1) > 64:
                break
            chosen.append(item)
        assert batch[0] == oldest and sorted(batch) == sorted(chosen)
        assert [arrived for arrived, _ in batch] == sorted(arrived for arrived, _ in batch)
        for item in batch:
            waiting.remove(item)
    assert waiting == []


def test_bound_holds_for_texts_without_tokens_too():
    async def main():
        queue = BatchQueue(capacity=4, batch_tokens=10)
        fill(queue, [3, 2])
        queue.reserve(1)
        assert (len(queue), queue.tokens) == (3, 5)
        assert queue.is_full(2) and not queue.is_full(1)
        queue.reserve(1)
        assert queue.is_full()
        queue.release(2)
        assert not queue.is_full(2) and queue.is_full(3)
        queue.reserve(2)
        assert len(queue) == 4

    asyncio.run(main())


def test_texts_of_clients_that_went_away():
    async def main():
        queue = BatchQueue(capacity=3, batch_tokens=100)
        first, _, third = fill(queue, [3, 4, 5])
        first.cancel()
        third.cancel()
        assert not queue.is_full(2)  # their places
        return await drain(queue)

    assert asyncio.run(main()) == [[4]]


def test_a_batch_is_awaited():
    async def main():
        queue = BatchQueue(capacity=3, batch_tokens=100)
        waiting = asyncio.create_task(queue.next_batch())
        await asyncio.sleep(0)
        assert not waiting.done()
        (answer,) = fill(queue, [3], arrived=7.0)
        (item,) = await waiting
        assert (item.length, item.arrived, item.answer) == (3, 7.0, answer)
        assert len(queue) == 0

    asyncio.run(main())


def test_closing_waits_for_reserved_places():
    async def main():
        queue = BatchQueue(capacity=3, batch_tokens=100)
        queue.reserve(2)
        queue.close()
        waiting = asyncio.create_task(queue.next_batch())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.put([[0] * 4], 0.0)
        assert [item.length for item in await waiting] == [4]
        waiting = asyncio.create_task(queue.next_batch())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.release(1)
        assert await waiting is None

    asyncio.run(main())
