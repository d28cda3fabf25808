"""What the benchmarks have in common: the device, time and peak memory.

A GPU works on while Python goes on: times are taken between two moments at which it has finished.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Optional

import torch

from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import write_text


def add_device_option(parser: ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))


def add_out_option(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what is printed to it")


def add_clock_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count the processor's time, on a machine that others use; with OMP_NUM_THREADS=1",
    )


def parse(parser: ArgumentParser):
    """The arguments; ends with one line if they ask for a GPU that is not there."""
    args = parser.parse_args()
    try:
        check_device(args.device)
    except UserError as error:
        parser.error(str(error))
    return args


class Lines:
    """Prints the lines of a result as they come, and writes them to a file at the end."""

    def __init__(self, out: Optional[Path]):
        self.out = out
        self.text = ""

    def __call__(self, line: str = "") -> None:
        print(line, flush=True)
        self.text += f"{line}\n"

    def write(self) -> None:
        if self.out is not None:
            write_text(self.out, self.text)


def synchronize(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device != "cpu":
        torch.cuda.synchronize()


def seconds(device: str, work: Callable, *inputs, **options) -> float:
    """Seconds that a call takes, the device's work included."""
    synchronize(device)
    start = time.perf_counter()
    work(*inputs, **options)
    synchronize(device)
    return time.perf_counter() - start


def chosen_clock(args: Namespace) -> Callable:
    """What times a call: `processor_seconds` with --processor-time, else `seconds`."""
    return processor_seconds if args.processor_time else partial(seconds, args.device)


def processor_seconds(work: Callable, *inputs, **options) -> float:
    """Seconds of the processor that a call takes in all threads, whatever else the machine does."""
    start = time.process_time()
    work(*inputs, **options)
    return time.process_time() - start


def start_peak(device: str) -> int:
    """Let the peak start anew from here, and return the bytes in use now."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes("VmRSS")


def peak(device: str) -> int:
    """Bytes, the most since `start_peak`: of torch's allocator on a GPU, else of this process."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else resident_bytes("VmHWM")


def resident_bytes(field: str) -> int:
    """VmRSS, resident memory now, or VmHWM, its peak."""
    return 1024 * int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0])
