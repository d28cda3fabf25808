"""What runs in the model's process: load the model, answer calls; the other side of `ModelProcess`.

Nothing here imports torch before the process has begun.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Optional

from pet_fairseq.errors import UserError
from pet_fairseq.predict.sentences import TextError

PR_SET_PDEATHSIG = 1  # of prctl in Linux: the signal that comes when the parent ends
TRIM_SECONDS = 10.0  # between two calls of `malloc_trim`, which take some milliseconds each
AGAIN = 0.1  # seconds until the exception of a time limit comes again: code may catch the first one


class ModelError(Exception):
    """The model failed; the message is the traceback in its process."""


def work(load: Callable[[], Any], texts: Connection, batches: Connection) -> None:
    """Load an object and call its methods until the server ends, or ends this process.

    Args:
        load: makes the object. Its errors, or that it is loaded, are told through `batches`.
        texts: for calls in the main thread, the only one that an alarm can interrupt.
        batches: for calls in another thread.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # the server is told, and ends this process
        signal.signal(number, signal.SIG_IGN)
    end_with_server()
    # locks made as for spawned processes, such as tqdm's, would leave files when this one is killed
    multiprocessing.set_start_method("fork", force=True)
    threading.Thread(target=watch_server, daemon=True).start()
    try:
        loaded = load()
    except (UserError, OSError, SystemExit) as error:
        batches.send((None, error))
    except Exception:
        batches.send((None, ModelError(traceback.format_exc())))
    else:
        batches.send((None, None))
        threading.Thread(target=answer_calls, args=(batches, loaded), daemon=True).start()
        answer_calls(texts, loaded)


def answer_calls(pipe: Connection, loaded: Any) -> None:
    """Send (result, error) for each call (method, arguments) that comes, while the server lives."""
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            name, args = pipe.recv()
            pipe.send(outcome(getattr(loaded, name), *args))


def outcome(function: Callable, *args) -> tuple[Any, Optional[Exception]]:
    """What a function returns, or what it raises: a TextError, or a ModelError for all others."""
    try:
        return function(*args), None
    except TextError as error:
        return None, error
    except Exception:
        return None, ModelError(traceback.format_exc())


def end_with_server() -> None:
    """Let the kernel end this process with the server, even while C code holds Python's lock."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def watch_server() -> None:
    """End with the server, whatever this process does then; until then give memory back.

    The allocator of glibc keeps memory that is freed between objects still in use; under load, with
    texts of all lengths, it soon keeps more than is in use.
    """
    server = multiprocessing.parent_process()
    trim = find_trim()
    while server is not None and server.is_alive():
        server.join(TRIM_SECONDS)
        if trim is not None:
            trim(0)
    os._exit(1)


def find_trim() -> Optional[Callable[[int], int]]:
    """`malloc_trim` of the C library, which takes the bytes to keep; None if it has none."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(library, "malloc_trim", None)


def call_within(seconds: float, function: Callable, *args) -> Any:
    """Call a function in the main thread, and end it when its time is over.

    Raises:
        TimeoutError: it was raised inside the function, between two steps of its Python code, and
            again if the function caught it. A function written in C is left to finish first.
    """
    running = True

    def ring(*_) -> None:
        if running:
            raise TimeoutError

    signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            return function(*args)
        finally:
            running = False
    finally:  # once more: the first one may have been interrupted before its first line
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
