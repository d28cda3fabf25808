"""What every benchmark declares itself to: its options, turns, medians, and how figures are shown.

A benchmark has a `Parser` with its sizes, and those of `--tiny`, at which the tests run it. It lets
the ways that it compares `take_turns`, and shows their medians in a `Report`: a table, printed row
by row below a line about the machine, and written to files on request. A GPU works on while Python
goes on: times are taken between two moments at which it has finished.
"""

import argparse
import multiprocessing
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Optional, TypeVar, Union

import torch

from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import write_csv, write_text
from pet_fairseq.markdown import table_head, table_row

K = TypeVar("K")
T = TypeVar("T")
DTYPES = ("float32", "float16", "bfloat16")
# of a table: each title with the format or the function that writes a value; "" is for text
Columns = Mapping[str, object]


# --- options --------------------------------------------------------------------------------------

SHARED: dict[str, dict[str, Any]] = {
    "--device": dict(default="cpu", choices=("cpu", "cuda")),
    "--dtype": dict(default="float32", choices=DTYPES),
    "--processor-time": dict(
        action="store_true",
        help="count the processor's time, on a machine that others use; with OMP_NUM_THREADS=1",
    ),
    "--out": dict(type=Path, metavar="FILE", help="write what is printed to it"),
    "--csv": dict(type=Path, metavar="FILE", help="write the table, not rounded"),
}


class Parser(argparse.ArgumentParser):
    """The command line of a benchmark.

    Args:
        about: its docstring, whose first line is shown as help.
        sizes: options that are a number, or a list of whole numbers, with their defaults.
        tiny: defaults that --tiny sets in place of the others.
        shared: options of SHARED.
    """

    def __init__(
        self,
        about: str,
        sizes: Mapping[str, object],
        tiny: Mapping[str, object],
        shared: Sequence[str] = ("--device", "--out", "--csv"),
    ):
        super().__init__(description=about.split("\n")[0], allow_abbrev=False)
        self.tiny = {name.lstrip("-").replace("-", "_"): value for name, value in tiny.items()}
        for name, default in sizes.items():
            kind: dict[str, Any] = {"type": type(default)}
            if isinstance(default, list):
                kind = {"type": int, "nargs": "+"}
            self.add_argument(name, default=default, help=f"default: {default}", **kind)
        for name in shared:
            self.add_argument(name, **SHARED[name])
        self.add_argument("--tiny", action="store_true", help="tiny sizes: only see that it runs")

    def parse_known_args(self, args=None, namespace=None):
        """As in argparse; ends with one line if a GPU is asked for that is not there."""
        if "--tiny" in (sys.argv[1:] if args is None else args):
            self.set_defaults(**self.tiny)
        options, rest = super().parse_known_args(args, namespace)
        try:
            check_device(getattr(options, "device", "cpu"))
        except UserError as error:
            self.error(str(error))
        return options, rest


# --- turns ----------------------------------------------------------------------------------------


def take_turns(
    ways: Mapping[K, Callable[[], T]], rounds: int, warm_up: int = 1
) -> dict[K, list[T]]:
    """What each way returns, by round, without the rounds that warm up.

    Every second round has the reverse order, so that no way always comes after the same one, and
    what changes slowly on the machine meets all alike.
    """
    results: dict[K, list[T]] = {way: [] for way in ways}
    for number in range(-warm_up, rounds):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            result = ways[way]()
            if number >= 0:
                results[way].append(result)
    return results


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times theirs ours is: the median of the ratios within each round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def in_own_process(work: Callable[..., T], *inputs) -> T:
    """What a function of a module returns in a new process, which has its own peak of memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *inputs).result()


# --- time and memory ------------------------------------------------------------------------------


def synchronize(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device != "cpu":
        torch.cuda.synchronize()


def timed(device: str, work: Callable[..., T], *inputs, **options) -> tuple[float, T]:
    """Seconds that a call takes, the device's work included, and what it returns."""
    synchronize(device)
    start = time.perf_counter()
    result = work(*inputs, **options)
    synchronize(device)
    return time.perf_counter() - start, result


def seconds(device: str, work: Callable, *inputs, **options) -> float:
    """Seconds that a call takes, the device's work included."""
    return timed(device, work, *inputs, **options)[0]


def processor_seconds(work: Callable, *inputs, **options) -> float:
    """Seconds of the processor that a call takes in all threads, whatever else the machine does."""
    start = time.process_time()
    work(*inputs, **options)
    return time.process_time() - start


def chosen_clock(args: argparse.Namespace) -> Callable[..., float]:
    """What times a call: `processor_seconds` with --processor-time, else `seconds`."""
    return processor_seconds if args.processor_time else partial(seconds, args.device)


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


def memory_of(device: str, work: Callable[..., T], *inputs) -> tuple[int, T]:
    """The most bytes that a call takes beyond those in use before it, and what it returns."""
    before = start_peak(device)
    result = work(*inputs)
    return peak(device) - before, result


def resident_bytes(field: str, process: Union[int, str] = "self") -> int:
    """VmRSS, resident memory now, or VmHWM, its peak, of this process or one by its number."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


# --- what is shown --------------------------------------------------------------------------------


def machine(device: str = "cpu") -> str:
    """What figures depend on apart from their command: the device, threads, versions."""
    name = processor()
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        name = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{name}, threads: {torch.get_num_threads()}; {versions}"


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.is_file() else []
    names = (line.split(": ")[1] for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


class Report:
    """The result of a benchmark: printed as it comes, and written to files by `write`.

    Args:
        about: what is measured. device: that it is measured on.
    """

    def __init__(self, about: str, device: str = "cpu"):
        self.text = ""
        self.tables: list[tuple[Columns, list[Sequence[Any]]]] = []
        self.say(f"{about}\n{machine(device)}")

    def say(self, line: str) -> None:
        print(line, flush=True)
        self.text += f"{line}\n"

    def begin_table(self, columns: Columns) -> None:
        """Print the head of a table, whose rows follow."""
        self.tables.append((columns, []))
        text = [i for i, how in enumerate(columns.values()) if how == ""]
        self.say("\n" + table_head(list(columns), text))

    def add_row(self, *values: Any) -> None:
        """Print a row of the table; None is for what was not measured."""
        columns, rows = self.tables[-1]
        cells = zip(values, columns.values(), strict=True)
        self.say(table_row(_show(value, how) for value, how in cells))
        rows.append(values)

    def write(self, out: Optional[Path], sheet: Optional[Path] = None) -> None:
        """Write files, as far as the result has come.

        Args:
            out: for what was printed. sheet: for the rows as CSV, not rounded; those of a second
                table go to a file beside it, NAME.2.csv.
        """
        if out is not None:
            write_text(out, self.text)
        if sheet is not None:
            for number, (columns, rows) in enumerate(self.tables, 1):
                suffix = sheet.suffix if number == 1 else f".{number}{sheet.suffix}"
                write_csv(sheet.with_suffix(suffix), list(columns), rows)


def _show(value: Any, how: object) -> str:
    if value is None:
        return "-"
    return str(how(value)) if callable(how) else format(value, str(how))


@contextmanager
def report(args: argparse.Namespace, about: str, columns: Columns) -> Iterator[Report]:
    """A report with its first table; once all rows are there, the files of --out and --csv."""
    result = Report(about, getattr(args, "device", "cpu"))
    result.begin_table(columns)
    yield result
    result.write(args.out, args.csv)
