"""The process that has the model: asked, killed when it hangs, and started again.

The server's own process never loads torch. `worker.py` is the other side.
"""

import argparse
import asyncio
import logging
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from typing import Any, NoReturn, Optional, Union

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.predict.sentences import Sentences
from pet_fairseq.serve.scheduler import Cost
from pet_fairseq.serve.worker import work

SPAWN = multiprocessing.get_context("spawn")  # a fork could not use CUDA
KINDS = ("texts", "batches")  # of calls
PATIENCE = 1.0  # seconds that a process without pipes may take to end by itself

logger = logging.getLogger(__name__)


class CallTooLongError(Exception):
    """The process was killed, because a call had taken too long."""


class ProcessEndedError(Exception):
    """The process ended before it answered: by itself, or because another call took too long."""


class Worker:
    """One process with an object, whose methods are called through two pipes at the same time.

    Args:
        load: makes the object in the process; it must be possible to pickle it.
    """

    def __init__(self, load: Callable[[], Any]):
        pairs = [SPAWN.Pipe() for _ in KINDS]
        self.pipes = {kind: ours for kind, (ours, _) in zip(KINDS, pairs)}
        ends = [theirs for _, theirs in pairs]
        self.process = SPAWN.Process(target=work, args=(load, *ends), daemon=True)
        self.process.start()
        for end in ends:  # else the end of the process would not be seen
            end.close()
        self.ending = threading.Lock()  # of two that wait for a process one is told its status

    def call(self, kind: str, seconds: Optional[float], name: str, *args) -> Any:
        """Call a method of the object.

        Args:
            seconds: after which the process is killed; None: never.
        Raises:
            CallTooLongError, ProcessEndedError. What the method raises.
        """
        pipe = self.pipes[kind]
        try:
            pipe.send((name, args))
            late = not pipe.poll(seconds)
        except OSError:
            late = False  # `receive` says why
        if late:
            self.end()
            raise CallTooLongError(f"after {seconds:g} seconds")
        return self.receive(kind)

    def receive(self, kind: str) -> Any:
        """What the other side has to say; raises its error, or ProcessEndedError."""
        try:
            result, error = self.pipes[kind].recv()
        except (EOFError, OSError):
            status = self.end(PATIENCE)
            raise ProcessEndedError(f"the model's process ended with status {status}") from None
        if error is not None:
            raise error
        return result

    def wait(self) -> None:
        """Wait until the process has ended."""
        connection.wait([self.process.sentinel])
        self.end()

    def end(self, patience: float = 0.0) -> Optional[int]:
        """Kill the process unless it ends within `patience` seconds; returns its status."""
        with self.ending:
            self.process.join(patience)
            self.process.kill()
            self.process.join()
            return self.process.exitcode


class ModelProcess:
    """A model in a process of its own, which is started again when it has ended.

    Texts and batches are worked on at the same time, but one call of each kind after another.

    Args:
        load: makes a `served_model.ServedModel`; as for Worker.
    """

    def __init__(self, load: Callable[[], Any]):
        self.load = load
        self.limits: dict[str, float] = {}  # seconds that a call of each kind may take
        self.worker: Optional[Worker] = None
        self.loaded = asyncio.Event()
        self.threads = {kind: ThreadPoolExecutor(1, kind) for kind in KINDS}

    @property
    def loading(self) -> bool:
        return not self.loaded.is_set()

    async def start(self) -> None:
        """Start the process, and wait until it has the model.

        Raises:
            UserError: the process ended, as when there is too little memory. What `load` raises.
        """
        self.worker = Worker(self.load)
        try:
            await self._in_thread("batches", self.worker.receive, "batches")
        except ProcessEndedError as error:
            raise UserError(
                f"CHECKPOINT: {error} while it loaded; is there enough memory?"
            ) from None
        self.loaded.set()

    async def keep_running(self) -> NoReturn:
        """Start the process again whenever it ends; raises what `start` raises then."""
        while True:
            assert self.worker is not None, "`start` was called"
            await asyncio.to_thread(self.worker.wait)
            self.loaded.clear()
            logger.warning("the model's process has ended; the model is loaded again")
            await self.start()
            logger.warning("the model is there again")

    def close(self) -> None:
        """Kill the process, which keeps nothing that would have to be written."""
        if self.worker is not None:
            self.worker.end()
        for thread in self.threads.values():
            thread.shutdown(wait=False)

    async def _in_thread(self, kind: str, function: Callable, *args) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.threads[kind], function, *args)

    async def _call(self, kind: str, name: str, *args) -> Any:
        """Call a method in the process that is there, or that is being started."""
        await self.loaded.wait()
        worker = self.worker
        assert worker is not None, "the model is loaded"
        seconds = self.limits.get(kind)
        try:
            return await self._in_thread(kind, worker.call, kind, seconds, name, *args)
        except (CallTooLongError, ProcessEndedError):
            if worker is self.worker:
                self.loaded.clear()  # `keep_running` starts the next one
            raise

    # --- the methods of `served_model.ServedModel` ------------------------------------------------

    async def encode(self, texts: list[Sentences]) -> list[tuple[list[int], bool]]:
        return await self._call("texts", "encode", texts)

    async def answer(self, texts: list[list[int]], ratio: int) -> tuple[list[dict], float]:
        return await self._call("batches", "answer", texts, ratio)

    async def check(self, ratio: int) -> None:
        await self._call("batches", "check", ratio)

    async def measure(self, ratio: Union[str, int], batch_tokens: int) -> dict[int, Cost]:
        return await self._call("batches", "measure", ratio, batch_tokens)


# --- what the process loads -----------------------------------------------------------------------


def load_served(args: argparse.Namespace, text_options: list[str]) -> Any:
    """Load the model with the limits on what clients may send; see options.py for args.

    Raises:
        UserError, SystemExit: as `load` of predict/load_model.py.
    """
    quiet()
    pet_fairseq.register()
    from pet_fairseq.serve.served_model import ServedModel, load_predictor

    model = load_predictor(args, text_options)
    return ServedModel(model, args.max_tokens_per_request, args.max_text_seconds)


def quiet() -> None:
    """Silence loggers: fairseq turns on every one, and junk from clients is not worth a line."""
    for name in ("asyncio", "fairseq", "hydra", "matplotlib"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
