"""A thread whose calls are ended when they take too long."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

AGAIN = 0.1  # seconds: the code in between may have caught the exception


class TimedThread:
    """One thread that an event loop gives calls to, which it works off in turn.

    Args:
        seconds: that a call may take once it has begun.
    """

    def __init__(self, name: str, seconds: float):
        self.seconds = seconds
        self.executor = ThreadPoolExecutor(1, name)

    async def call(self, function: Callable, *args) -> Any:
        """Call a function in the thread and return its result.

        Raises:
            TimeoutError: inside the function, between two steps of its Python code, when the time
                is over. A function written in C is left to finish first.
        """
        loop = asyncio.get_running_loop()
        call = TimedCall(function, args, self.seconds, loop)
        return await loop.run_in_executor(self.executor, call.run)

    def shutdown(self) -> None:
        self.executor.shutdown()


class TimedCall:
    """One call: `run` in the thread, `interrupt` in the event loop."""

    def __init__(
        self, function: Callable, args: tuple, seconds: float, loop: asyncio.AbstractEventLoop
    ):
        self.function = function
        self.args = args
        self.seconds = seconds
        self.loop = loop
        self.thread: Optional[int] = None
        self.ended = threading.RLock()  # once the thread has it, nobody interrupts any more

    def run(self) -> Any:
        self.thread = threading.get_ident()
        self.loop.call_soon_threadsafe(self.loop.call_later, self.seconds, self.interrupt)
        try:
            return self.function(*self.args)
        finally:
            self.end()

    def end(self) -> None:
        """Let no exception reach what the thread does next."""
        late = None
        while self.thread is not None:
            try:
                self.ended.acquire()  # an exception that was sent before arrives here at the latest
                self.thread = None
            except TimeoutError as error:
                late = error
        if late is not None:
            raise late

    def interrupt(self) -> None:
        if not self.ended.acquire(blocking=False):
            return
        try:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread), ctypes.py_object(TimeoutError)
            )
        finally:
            self.ended.release()
        self.loop.call_later(AGAIN, self.interrupt)
