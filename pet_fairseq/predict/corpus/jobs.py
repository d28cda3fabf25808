"""Processes that translate shards side by side, and how far they have come."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Optional, Protocol

from pet_fairseq.devices import gpu_count
from pet_fairseq.errors import UserError
from pet_fairseq.number_format import format_speed
from pet_fairseq.runner.progress import SECONDS_BETWEEN_LINES, clock
from pet_fairseq.runner.run import resolve

VISIBLE = "CUDA_VISIBLE_DEVICES"
SECONDS_ON_TERMINAL = 2  # from one line to the next, which takes its place


class Update(Protocol):
    """What is told of progress: lines translated since the last time, and the part read so far."""

    def __call__(self, *, lines: int, read: float) -> None: ...


class Progress:
    """Shows on standard error what jobs have done.

    Attributes:
        lines: translated by all of them.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.on_terminal = sys.stderr.isatty()
        self.started = self.shown = time.monotonic()
        self.read: dict[int, float] = {}  # by job
        self.first: dict[int, tuple[float, float]] = {}  # when the first lines came, and `read`

    @property
    def speed(self) -> float:
        """Lines per second."""
        return self.lines / max(1e-9, time.monotonic() - self.started)

    def update(self, *, lines: int, read: float, job: int = 0) -> None:
        """Count lines of a job; read: which part of the text it has read, from 0 to 1."""
        self.lines += lines
        self.read[job] = read
        self.first.setdefault(job, (time.monotonic(), read))
        between = SECONDS_ON_TERMINAL if self.on_terminal else SECONDS_BETWEEN_LINES
        if time.monotonic() - self.shown >= between:
            self.shown = time.monotonic()
            start, end = ("\r", "\033[K") if self.on_terminal else ("", "\n")
            print(f"{start}{self.describe()}", end=end, file=sys.stderr, flush=True)

    def describe(self) -> str:
        """One line: lines done, speed, time left."""
        line = f"{self.lines:,} lines, {format_speed(self.speed)} lines/s"
        left = self.seconds_left()
        return line if left is None else f"{line}, {clock(left)} left"

    def seconds_left(self) -> Optional[float]:
        """How long the slowest job will take, by the part of the text that each has read."""
        left = []
        for job, read in self.read.items():
            since, before = self.first[job]
            if read == before:
                return None
            left.append((time.monotonic() - since) * (1 - read) / (read - before))
        return max(left)

    def close(self) -> None:
        if self.on_terminal and self.shown > self.started:
            print(file=sys.stderr)


def run_jobs(
    commands: Sequence[Sequence[str]], on_gpus: bool, handle: int, progress: Progress
) -> None:
    """Run commands side by side until all have ended.

    Each prints JSON lines: arguments of `Progress.update`, or the error with which it ends.

    Args:
        on_gpus: whether each has one of the GPUs. handle: of a lock, which they hold, too.
    Raises:
        UserError: one has failed; the others are ended.
    """
    processes: list[subprocess.Popen] = []
    try:
        with selectors.DefaultSelector() as selector:
            for job, words in enumerate(commands):
                env = {**os.environ, **(gpu_of(job) if on_gpus else {})}
                process = subprocess.Popen(
                    resolve(words),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    env=env,
                    pass_fds=(handle,),
                )
                processes.append(process)
                selector.register(process.stdout, selectors.EVENT_READ, job)  # type: ignore
            while selector.get_map():
                for key, _ in selector.select():
                    told = key.fileobj.readline()  # type: ignore[union-attr]
                    name = f"job {key.data + 1} of {len(commands)}"
                    if told:
                        take(json.loads(told), key.data, name, progress)
                    else:
                        selector.unregister(key.fileobj)
                        check_end(processes[key.data].wait(), name)
    finally:
        for process in processes:
            process.terminate()
            process.communicate()


def take(told: dict, job: int, name: str, progress: Progress) -> None:
    """Raises UserError if a job has told its error."""
    if "error" in told:
        raise UserError(f"{name}: {told['error']}")
    progress.update(job=job, **told)


def check_end(status: int, name: str) -> None:
    """Raise UserError if a job has ended with a status other than 0."""
    if status:
        is_signal = status < 0
        how = f"signal {-status}, {signal.strsignal(-status)}" if is_signal else f"status {status}"
        raise UserError(
            f"{name}: ended by {how}; the finished shards stay: start the same command again, with "
            "fewer --jobs if memory was short"
        )


def gpu_of(job: int) -> dict[str, str]:
    """The variable that shows a job one of the GPUs that this process sees."""
    visible = os.environ.get(VISIBLE)
    gpus = visible.split(",") if visible else [str(number) for number in range(gpu_count())]
    return {VISIBLE: gpus[job % len(gpus)]} if gpus else {}
