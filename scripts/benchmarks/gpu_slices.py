"""What gpu.py has to do: slices of work, each with its command and what that makes."""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Optional

from pet_fairseq.runner.stage import PRODUCT, CommandLine, Stage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROWS = ("teacher", "scratch", "kd", "pkd", "can", "pet", "pet_patient")
TINY_ROWS = ("teacher", "pet_patient")


@dataclass(frozen=True)
class Slice:
    """A part of the work that one command does.

    Attributes:
        minutes: an estimate for a large GPU.
        product: what the command makes; result: the Markdown in it, None if it has no figures.
        can_be_cut: whether the command goes on where it was interrupted.
    """

    name: str
    title: str
    minutes: float
    command: CommandLine
    product: Path
    result: Optional[Path]
    inputs: tuple[Path, ...] = ()
    can_be_cut: bool = False

    @property
    def stage(self) -> Stage:
        return Stage(self.name, (self.name,), self.command, self.product, self.inputs)


def slices(args: argparse.Namespace) -> list[Slice]:
    """All slices in order of worth."""
    return [_tests(args), *_losses(args), *_decoding(args), *_multi30k(args), *_methods(args)]


def _bench(
    args: argparse.Namespace, product: str, title: str, minutes: float, script: str, full: str = ""
) -> Slice:
    """A benchmark beside this file.

    Args:
        product: its table, or a folder with it, in OUT.
        script: its name, with options that it has at every size; full: those at full size.
    """
    path = args.out / product
    name, *options = script.split()
    sizes = ["--tiny"] if args.tiny else full.split()
    command: CommandLine = (
        *(sys.executable, str(HERE / name), *options, *sizes),
        *("--out", PRODUCT),
    )
    result = path if path.suffix else path / f"{Path(name).stem}.md"
    return Slice(path.stem, title, minutes, command, path, result)


def _tests(args: argparse.Namespace) -> Slice:
    folder = ROOT / "tests" / ("gpu" if args.tiny else "")
    product = args.out / "tests.md"
    command = (sys.executable, str(HERE / "gpu_tests.py"), str(folder), PRODUCT)
    return Slice("tests", "Tests marked `gpu`", 3, command, product, product)


def _losses(args: argparse.Namespace) -> Iterable[Slice]:
    for words, dtype in product((500,) if args.tiny else (32000, 128000), ("float32", "float16")):
        title = f"Distillation loss, {words} words, {dtype}"
        script = f"distillation.py --words {words} --dtype {dtype} --device {args.device}"
        yield _bench(args, f"loss-{words}-{dtype}.md", title, 0.7, script)


def _decoding(args: argparse.Namespace) -> Iterable[Slice]:
    models = ("pet",) if args.tiny else ("pet", "teacher", "d256")
    full = "--batch-sizes 1 32 128 512 --rounds 3 --sentences-of-small 8"
    for dtype, model in product(("float16", "float32", "bfloat16"), models):
        script = f"decoding.py --models {model} --dtype {dtype} --device {args.device}"
        title = f"Decoding, {model}, {dtype}"
        yield _bench(args, f"decoding-{dtype}-{model}", title, 1, script, full)


def _multi30k(args: argparse.Namespace) -> Iterable[Slice]:
    """The demo takes the place of Multi30k at tiny size."""
    if not (args.tiny or args.multi30k):
        return
    folder = args.out / "multi30k"
    runs = folder / "runs"
    recipe = [sys.executable, "-m", "pet_fairseq.cli", "recipe"]
    if args.tiny:
        recipe += ["demo", "--size", "tiny", "--beams", "2"]
        inputs: tuple[Path, ...] = ()
    else:
        data = folder / "data"
        prepare = ("env", f"OUT={data}", "bash", str(ROOT / "examples/multi30k/prepare.sh"))
        yield Slice(
            "multi30k-data",
            "Multi30k, data",
            2.5,
            (*prepare, str(args.multi30k)),
            data / "bin",
            None,
            (args.multi30k,),
        )
        recipe += ["multi30k", "--size", "full_fast", "--data", str(data)]
        inputs = (data / "bin",)
    recipe += ["--rows", *(TINY_ROWS if args.tiny else ROWS), "--jobs", str(args.jobs)]
    recipe += ["--repeats", "1", "--device", args.device, "--runs", str(runs)]
    title = "Multi30k, full size" if not args.tiny else "The demo in place of Multi30k"
    report = runs / "report.md"
    yield Slice("multi30k", title, 14, tuple(recipe), report, report, inputs, can_be_cut=True)


def _methods(args: argparse.Namespace) -> Iterable[Slice]:
    """What Variator and SelfCP save."""
    device = f"--device {args.device}"
    for dtype in ("float32", "float16"):
        title, script = f"Variator's encoder, {dtype}", f"variator.py {device} --dtype {dtype}"
        yield _bench(args, f"variator-{dtype}.md", title, 0.5, script)
    title, script = "SelfCP, ways to read a prompt", f"selfcp.py {device}"
    yield _bench(args, "selfcp.md", title, 3, script, "--repeats 3")
    title, script = "SelfCP, demonstrations", f"shots.py {device}"
    yield _bench(args, "shots.md", title, 3, script, "--shots 1 4 16 --repeats 2")
    yield _bench(args, "bank.md", "SelfCP, search in a bank (processor)", 1, "bank.py")
