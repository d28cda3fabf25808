"""Gives every reader of pet_fairseq thousands of wrong inputs.

Usage: fuzz.py [--inputs 10000] [--readers NAME ...] [--seed 1]
       fuzz.py --readers NAME --only NUMBER      one input again, with its traceback

An input is a valid one that was cut, flipped, repeated or mixed, or made of a reader's own words. A
reader passes if each ends in a result or in an error of one line (UserError), within 5 seconds and
1 GB of memory. Prints a row for each reader and a line for each failure; the exit status is 1 if
there was one. `fuzz_readers.py` has the readers.
"""

import argparse
import collections
import contextlib
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
from fuzz_readers import READERS, Prepare

from pet_fairseq import register
from pet_fairseq.errors import UserError

SECONDS = 5  # of processor time; on the clock twelve times as much, for waiting
BYTES = 1 << 30
SHOWN = 5  # failures of a reader


class Progress:
    """What a child process tells its parent in shared memory, whatever may end it."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 16)

    def write(self, number: int, refused: int) -> None:
        self.memory[:] = struct.pack("qq", number, refused)

    def read(self) -> tuple[int, int]:
        return struct.unpack("qq", self.memory[:])


def main() -> int:
    args = parse_arguments()
    register()
    torch.set_num_threads(1)
    names = args.readers or list(READERS)
    failed = False
    print(f"{'reader':24} {'inputs':>7} {'refused':>8} {'seconds':>8}  failures", flush=True)
    for name in names:
        failed |= fuzz(name, args) > 0
    return int(failed)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="for each reader")
    parser.add_argument("--readers", nargs="+", choices=READERS, metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this input and no other")
    return parser.parse_args()


def fuzz(name: str, args: argparse.Namespace) -> int:
    """Give a reader its inputs; returns how many failures there were."""
    start, refused, problems = time.monotonic(), 0, collections.Counter()
    first: dict[str, int] = {}
    progress = Progress()
    numbers = range(args.inputs) if args.only is None else range(args.only, args.only + 1)
    with tempfile.TemporaryDirectory(prefix="fuzz_") as folder:
        following = numbers.start
        while following < numbers.stop:
            progress.write(following, 0)
            problem = in_child(name, args, range(following, numbers.stop), Path(folder), progress)
            last, refused_now = progress.read()
            refused += refused_now
            if problem:
                problems[problem] += 1
                first.setdefault(problem, last)
            following = last + 1
    print(
        f"{name:24} {len(numbers):7,} {refused:8,} {time.monotonic() - start:8.1f}  "
        f"{sum(problems.values())}",
        flush=True,
    )
    for problem, count in problems.most_common(SHOWN):
        print(f"    {count:,} times {problem}: --readers {name} --only {first[problem]}")
    return sum(problems.values())


def in_child(
    name: str, args: argparse.Namespace, numbers: range, folder: Path, progress: Progress
) -> str:
    """Try inputs in a process of its own until one fails; returns what happened, "" if nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        problem = "the child itself failed"
        try:
            problem = try_inputs(name, args, numbers, folder, progress)
        except BaseException as error:
            problem = f"outside a reader: {error!r}"
        finally:
            os.write(writing, problem.encode("utf-8", "replace")[:4000])
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        problem = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hung = number in (signal.SIGALRM, signal.SIGPROF)
        problem = f"took {SECONDS} s" if hung else f"died of {signal.Signals(number).name}"
    return problem


def try_inputs(
    name: str, args: argparse.Namespace, numbers: range, folder: Path, progress: Progress
) -> str:
    """Try inputs until one fails; returns how it failed, "" if none did."""
    prepare: Prepare = READERS[name]
    limit_memory()
    if args.only is None:
        silence()
    refused = 0
    make = prepare(folder)
    for number in numbers:
        progress.write(number, refused)
        draw = random.Random(f"{name} {args.seed} {number}")
        read = make(draw)
        limit_time(SECONDS)
        try:
            read()
        except UserError as error:
            refused += 1
            if "\n" in str(error):
                progress.write(number, refused)
                return f"an error of several lines: {str(error)!r}"
            if args.only is not None:
                print(f"refused: {error}")
        except Exception as error:
            if args.only is not None:
                traceback.print_exc()
            progress.write(number, refused)
            return describe(error)
        finally:
            limit_time(0)
    progress.write(numbers[-1], refused)
    return ""


def describe(error: Exception) -> str:
    """The kind of an error and where it was raised in this package last."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/pet_fairseq/" in f.filename and "/scripts/" not in f.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "nowhere"
    return f"{type(error).__name__} at {place}"


def limit_time(seconds: int) -> None:
    """Have the system end this process after so much time; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(12 * seconds)


def limit_memory() -> None:
    """Let the process have 1 GB more than it has; beyond that is a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * mmap.PAGESIZE + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def silence() -> None:
    """Keep progress bars, warnings and logs of libraries off the table."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
