"""A thread whose calls are ended when they take too long."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Optional

AGAIN = 0.1  # seconds until the exception is sent again: code may have caught the first one


class TimedThread:
    """One thread that runs the calls of an event loop one after another.

    Args:
        seconds: how long a call may take once it has begun.
    """

    def __init__(self, name: str, seconds: float):
        self.seconds = seconds
        self.executor = ThreadPoolExecutor(1, name)

    async def call(self, function: Callable, *args) -> Any:
        """Call a function in the thread and return its result.

        Raises:
            TimeoutError: the time is over; it is raised inside the function, between two steps of
                its Python code. A function written in C is left to finish first.
        """
        loop = asyncio.get_running_loop()
        call = TimedCall(function, args, self.seconds, loop)
        return await asyncio.wrap_future(call.submit(self.executor))

    def shutdown(self) -> None:
        self.executor.shutdown()


class TimedCall:
    """One call: `run` and `end` in the thread, the rest in the event loop."""

    def __init__(
        self, function: Callable, args: tuple, seconds: float, loop: asyncio.AbstractEventLoop
    ):
        self.function = function
        self.args = args
        self.seconds = seconds
        self.loop = loop
        self.work: Optional[Future] = None
        self.thread: Optional[int] = None
        self.timer: Optional[asyncio.TimerHandle] = None
        self.ended = threading.RLock()  # once the thread holds it, the call is not interrupted

    def submit(self, executor: Executor) -> Future:
        self.work = executor.submit(self.run)
        return self.work

    def run(self) -> Any:
        self.thread = threading.get_ident()
        self.loop.call_soon_threadsafe(self.interrupt_after, self.seconds)
        try:
            try:
                return self.function(*self.args)
            finally:
                self.end()
        except TimeoutError:
            self.end()  # the exception may have come before the first line of `end`
            raise

    def end(self) -> None:
        """End the call, so that no exception reaches what the thread does next."""
        late = None
        while self.thread is not None:
            try:
                self.ended.acquire()  # an exception that was sent before arrives here at the latest
                self.thread = None
            except TimeoutError as error:
                late = error
        self.loop.call_soon_threadsafe(self.forget)
        if late is not None:
            raise late

    def interrupt_after(self, seconds: float) -> None:
        self.timer = self.loop.call_later(seconds, self.interrupt)

    def forget(self) -> None:
        """Cancel the timer, which otherwise keeps the call's arguments until it runs out."""
        if self.timer is not None:
            self.timer.cancel()

    def interrupt(self) -> None:
        """Send the thread a TimeoutError, and again later, unless the call has ended."""
        if self.work is None or self.work.done() or not self.ended.acquire(blocking=False):
            return
        try:
            assert self.thread is not None, "set before the timer starts, and `ended` is ours"
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread), ctypes.py_object(TimeoutError)
            )
        finally:
            self.ended.release()
        self.interrupt_after(AGAIN)
