"""Calls in a thread that end when their time is over, however they were written."""

import asyncio
import contextlib
import gc
import time
import weakref

from pet_fairseq.serve import timed_thread
from pet_fairseq.serve.timed_thread import TimedCall, TimedThread


def spin(seconds=60.0):
    """Keep Python busy; returns the seconds."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return seconds


def catch_all(times):
    """Go on after the first exceptions, as code with a bare `except` does."""
    for _ in range(times):
        with contextlib.suppress(BaseException):
            spin()
    spin()


def calls(seconds, *functions):
    """The outcome of each function, called in turn in one thread."""

    async def main():
        thread = TimedThread("test", seconds)
        try:
            return await asyncio.gather(
                *(thread.call(*function) for function in functions), return_exceptions=True
            )
        finally:
            thread.shutdown()

    return asyncio.run(main())


def test_results_and_errors_come_through():
    numbers, error = calls(60, (sorted, [3, 1, 2]), (int, "x"))
    assert numbers == [1, 2, 3]
    assert isinstance(error, ValueError)


def test_a_call_that_takes_too_long_is_ended_and_the_next_one_is_not():
    slow, quick = calls(0.1, (spin,), (len, "abc"))
    assert isinstance(slow, TimeoutError)
    assert quick == 3


def test_code_that_catches_the_exception_is_interrupted_again(monkeypatch):
    monkeypatch.setattr(timed_thread, "AGAIN", 0.01)
    caught, quick = calls(0.05, (catch_all, 3), (len, "abc"))
    assert isinstance(caught, TimeoutError)
    assert quick == 3


def test_the_thread_outlives_calls_that_end_just_in_time():
    """Were an exception to come after its call, it would end the thread and with it the server."""
    limit = 0.02
    outcomes = calls(limit, *((spin, limit * (0.5 + n / 40)) for n in range(60)), (len, "abc"))
    assert outcomes.pop() == 3
    assert {type(outcome) for outcome in outcomes} <= {float, TimeoutError}
    assert TimeoutError in map(type, outcomes)


def test_an_exception_at_the_entry_of_the_end(monkeypatch):
    """It may come after the call and before its end has begun, and must not come again then."""
    monkeypatch.setattr(timed_thread, "AGAIN", 0.01)
    end, struck = TimedCall.end, []

    def end_struck_once(call):
        if not struck:
            struck.append(call)
            raise TimeoutError
        end(call)

    monkeypatch.setattr(TimedCall, "end", end_struck_once)
    first, *later = calls(0.05, (len, "abc"), (spin, 0.02), (time.sleep, 0.2), (len, "ab"))
    assert isinstance(first, TimeoutError)
    assert later[0] == 0.02 and later[-1] == 2


def test_nothing_is_kept_of_a_call_that_has_ended():
    """Though it may have had much longer."""

    class Big(str):
        pass

    async def main():
        thread = TimedThread("test", 600)
        text = Big("x" * 1000)
        assert await thread.call(len, text) == 1000
        kept = weakref.ref(text)
        del text
        await asyncio.sleep(0.1)
        gc.collect()
        thread.shutdown()
        return kept()

    assert asyncio.run(main()) is None


def test_time_that_a_call_waits_for_its_turn_does_not_count():
    _, waited = calls(0.5, (time.sleep, 0.8), (len, "abc"))
    assert waited == 3
