"""What gpu.py has to do: slices of work, each with its command and what that makes."""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
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
    groups = (_tests, _loss, _decoding, _multi30k, _variator, _selfcp, _shots, _bank)
    return [part for group in groups for part in group(args)]


Options = tuple[str, ...]


def _bench(
    args: argparse.Namespace, name: str, title: str, minutes: float, script: str, *options: str
) -> Slice:
    product = args.out / f"{name}.md"
    command: CommandLine = (sys.executable, str(HERE / script), *options, "--out", PRODUCT)
    return Slice(name, title, minutes, command, product, product)


def _tests(args: argparse.Namespace) -> Iterable[Slice]:
    product = args.out / "tests.md"
    folder = ROOT / "tests" / ("gpu" if args.tiny else "")
    command = (sys.executable, str(HERE / "gpu_tests.py"), str(folder), PRODUCT)
    yield Slice("tests", "Tests marked `gpu`", 3, command, product, product)


def _loss(args: argparse.Namespace) -> Iterable[Slice]:
    tiny = ("--tokens", "64", "--width", "16", "--repeats", "1")
    for words in ("500",) if args.tiny else ("32000", "128000"):
        for dtype in ("float32", "float16"):
            name = f"loss-{words}-{dtype}"
            title = f"Distillation loss, {words} words, {dtype}"
            options: Options = ("--words", words, "--dtype", dtype, "--device", args.device)
            options += tiny if args.tiny else ("--tokens", "4096", "--repeats", "5")
            yield _bench(args, name, title, 0.7, "distillation.py", *options)


def _decoding(args: argparse.Namespace) -> Iterable[Slice]:
    tiny = ("--words", "300", "--batch-sizes", "1", "4", "--rounds", "1", "--product", "64")
    full = ("--batch-sizes", "1", "32", "128", "512", "--rounds", "3")
    for dtype in ("float16", "float32", "bfloat16"):
        for model in ("pet",) if args.tiny else ("pet", "teacher", "d256"):
            name = f"decoding-{dtype}-{model}"
            product = args.out / name
            command = (
                *(sys.executable, str(HERE / "decoding.py"), "--models", model, "--dtype", dtype),
                *("--device", args.device, "--beams", "1", "5"),
                *(tiny if args.tiny else full),
                *("--sentences-of-small", "2" if args.tiny else "8", "--out", PRODUCT),
            )
            title = f"Decoding, {model}, {dtype}"
            yield Slice(name, title, 1, command, product, product / "decoding.md")


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
            *("multi30k-data", "Multi30k, data", 2.5, (*prepare, str(args.multi30k)), data / "bin"),
            *(None, (args.multi30k,)),
        )
        recipe += ["multi30k", "--size", "full_fast", "--data", str(data)]
        inputs = (data / "bin",)
    recipe += ["--rows", *(TINY_ROWS if args.tiny else ROWS), "--jobs", str(args.jobs)]
    recipe += ["--repeats", "1", "--device", args.device, "--runs", str(runs)]
    title = "Multi30k, full size" if not args.tiny else "The demo in place of Multi30k"
    report = runs / "report.md"
    yield Slice("multi30k", title, 14, tuple(recipe), report, report, inputs, can_be_cut=True)


def _variator(args: argparse.Namespace) -> Iterable[Slice]:
    tiny: Options = ("--width", "32", "--ffn", "64", "--heads", "2", "--layers", "1")
    tiny += ("--ratios", "2")
    tiny += ("--bottleneck-dim", "4", "--lengths", "16", "--tokens", "64", "--repeats", "1")
    for dtype in ("float32", "float16"):
        options = ("--device", args.device, "--dtype", dtype, *(tiny if args.tiny else ()))
        title = f"Variator's encoder, {dtype}"
        yield _bench(args, f"variator-{dtype}", title, 0.5, "variator.py", *options)


SMALL_MODEL = ("--width", "64", "--layers", "1", "--rows", "1", "--new", "4", "--repeats", "1")


def _selfcp(args: argparse.Namespace) -> Iterable[Slice]:
    options: Options = ("--device", args.device)
    tiny = ("--prompt", "64", "--window", "16", "--lengths", "64", *SMALL_MODEL)
    options += tiny if args.tiny else ("--repeats", "3")
    yield _bench(args, "selfcp", "SelfCP, ways to read a prompt", 3, "selfcp.py", *options)


def _shots(args: argparse.Namespace) -> Iterable[Slice]:
    options: Options = ("--device", args.device)
    tiny = ("--shots", "1", "2", "--demonstration", "40", *SMALL_MODEL)
    options += tiny if args.tiny else ("--shots", "1", "4", "16", "--repeats", "2")
    yield _bench(args, "shots", "SelfCP, demonstrations", 3, "shots.py", *options)


def _bank(args: argparse.Namespace) -> Iterable[Slice]:
    tiny = ("--demonstrations", "500", "--widths", "8", "--repeats", "2")
    title = "SelfCP, search in a bank (processor)"
    yield _bench(args, "bank", title, 1, "bank.py", *(tiny if args.tiny else ()))
