"""Freed memory is given back while the server runs."""

import asyncio
import platform

import pytest

from pet_fairseq.serve import heap


def test_memory_is_given_back_again_and_again(monkeypatch):
    kept = []
    monkeypatch.setattr(heap, "SECONDS", 0.001)
    monkeypatch.setattr(heap, "find_trim", lambda: kept.append)

    async def run():
        task = asyncio.create_task(heap.keep_trimmed())
        while len(kept) < 3:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert set(kept) == {0}


def test_without_glibc_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(heap, "find_trim", lambda: None)
    asyncio.run(asyncio.wait_for(heap.keep_trimmed(), 30))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_glibc_has_it():
    assert heap.find_trim()(0) in (0, 1)


def test_other_systems_have_not(monkeypatch):
    monkeypatch.setattr(heap.sys, "platform", "darwin")
    assert heap.find_trim() is None
