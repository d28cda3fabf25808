#!/usr/bin/env python3
"""Everything that needs a GPU, in order of worth and in slices that go on where they stopped.

The tests marked `gpu`, the distillation loss, decoding, Multi30k from raw text to a report, and
the speed of Variator and SelfCP: 40 minutes of a large GPU by estimate. A call ends after
--minutes; the same command again goes on: what is finished is skipped, trainings resume, and a
slice that would not fit is left for the next call. Every call writes OUT/summary.md: for each slice
its device, date, command and table. A slice that fails is named there and not tried again without
--again.

    python scripts/benchmarks/gpu.py --multi30k RAW [--out runs/gpu] [--minutes 9] [--dry-run]
    python scripts/benchmarks/gpu.py --tiny --device cpu     everything at tiny size, minutes

RAW is the folder with {train,val,test_2016_flickr}.{de,en}.gz. The package need not be installed.
"""

import argparse
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))  # works without an installation

from pet_fairseq.devices import check_device  # noqa: E402
from pet_fairseq.errors import UserError  # noqa: E402
from pet_fairseq.files import write_json, write_text  # noqa: E402
from pet_fairseq.markdown import table  # noqa: E402
from pet_fairseq.recipes.runner import run_stages  # noqa: E402
from pet_fairseq.recipes.skipping import RunOptions, State, find_state  # noqa: E402
from pet_fairseq.recipes.stage import Stage  # noqa: E402

LEAST_MINUTES = 1.0  # with fewer left, not even a training that can be cut is begun
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
    command: tuple[str, ...]
    product: Path
    result: Optional[Path]
    inputs: tuple[Path, ...] = ()
    can_be_cut: bool = False

    @property
    def stage(self) -> Stage:
        return Stage(self.name, (self.name,), self.command, self.product, self.inputs)


# --- what there is to do --------------------------------------------------------------------------


def slices(args: argparse.Namespace) -> list[Slice]:
    """All slices in order of worth."""
    groups = (_tests, _loss, _decoding, _multi30k, _variator, _selfcp, _shots, _bank)
    return [part for group in groups for part in group(args)]


def _bench(
    args: argparse.Namespace, name: str, title: str, minutes: float, script: str, *options: str
) -> Slice:
    product = args.out / f"{name}.md"
    command = (sys.executable, str(HERE / script), *options, "--out", str(product))
    return Slice(name, title, minutes, command, product, product)


def _tests(args: argparse.Namespace) -> Iterable[Slice]:
    product = args.out / "tests.md"
    folder = ROOT / "tests" / ("gpu" if args.tiny else "")
    command = (sys.executable, str(HERE / "gpu.py"), "--run-tests", str(folder), str(product))
    yield Slice("tests", "Tests marked `gpu`", 3, command, product, product)


def _loss(args: argparse.Namespace) -> Iterable[Slice]:
    tiny = ("--tokens", "64", "--width", "16", "--repeats", "1")
    for words in ("500",) if args.tiny else ("32000", "128000"):
        for dtype in ("float32", "float16"):
            name = f"loss-{words}-{dtype}"
            title = f"Distillation loss, {words} words, {dtype}"
            options = ("--words", words, "--dtype", dtype, "--device", args.device)
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
                *("--sentences-of-small", "2" if args.tiny else "8", "--out", str(product)),
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
        inputs = ()
    else:
        data = folder / "data"
        prepare = ("env", f"OUT={data}", "bash", str(ROOT / "examples/multi30k/prepare.sh"))
        yield Slice(
            *("multi30k-data", "Multi30k, data", 2.5, (*prepare, str(args.multi30k)), data / "bin"),
            *(None, (args.multi30k,)),
        )
        recipe += ["multi30k", "--size", "full_fast", "--data", str(data)]
        inputs = (data / "bin",)
    recipe += [
        "--rows",
        *(TINY_ROWS if args.tiny else ROWS),
        "--jobs",
        str(args.jobs),
        "--repeats",
        "1",
    ]
    recipe += ["--device", args.device, "--runs", str(runs)]
    title = "Multi30k, full size" if not args.tiny else "Toy corpus in place of Multi30k"
    report = runs / "report.md"
    yield Slice("multi30k", title, 14, tuple(recipe), report, report, inputs, can_be_cut=True)


def _variator(args: argparse.Namespace) -> Iterable[Slice]:
    tiny = ("--width", "32", "--ffn", "64", "--heads", "2", "--layers", "1", "--ratios", "2")
    tiny += ("--bottleneck-dim", "4", "--lengths", "16", "--tokens", "64", "--repeats", "1")
    for dtype in ("float32", "float16"):
        options = ("--device", args.device, "--dtype", dtype, *(tiny if args.tiny else ()))
        title = f"Variator's encoder, {dtype}"
        yield _bench(args, f"variator-{dtype}", title, 0.5, "variator.py", *options)


SMALL_MODEL = ("--width", "64", "--layers", "1", "--rows", "1", "--new", "4", "--repeats", "1")


def _selfcp(args: argparse.Namespace) -> Iterable[Slice]:
    options = ("--device", args.device)
    tiny = ("--prompt", "64", "--window", "16", "--lengths", "64", *SMALL_MODEL)
    options += tiny if args.tiny else ("--repeats", "3")
    yield _bench(args, "selfcp", "SelfCP, ways to read a prompt", 3, "selfcp.py", *options)


def _shots(args: argparse.Namespace) -> Iterable[Slice]:
    options = ("--device", args.device)
    tiny = ("--shots", "1", "2", "--demonstration", "40", *SMALL_MODEL)
    options += tiny if args.tiny else ("--shots", "1", "4", "16", "--repeats", "2")
    yield _bench(args, "shots", "SelfCP, demonstrations", 3, "shots.py", *options)


def _bank(args: argparse.Namespace) -> Iterable[Slice]:
    tiny = ("--demonstrations", "500", "--widths", "8", "--repeats", "2")
    title = "SelfCP, search in a bank (processor)"
    yield _bench(args, "bank", title, 1, "bank.py", *(tiny if args.tiny else ()))


# --- doing it -------------------------------------------------------------------------------------


class Notes:
    """Notes on the slices that ran: when, on what, how long, and why they failed."""

    def __init__(self, out: Path):
        self.path = out / "slices.json"
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else "{}"
        self.of: dict[str, dict] = json.loads(text)

    def failure(self, name: str) -> Optional[str]:
        return self.of.get(name, {}).get("failure")

    def add(self, name: str, minutes: float, failure: Optional[str], about: dict) -> None:
        minutes += self.of.get(name, {}).get("minutes", 0)  # of a slice that was cut before
        self.of[name] = {**about, "minutes": minutes, "failure": failure}
        write_json(self.path, self.of)


def run_call(args: argparse.Namespace, begun: float) -> bool:
    """Run slices until the time is up; returns whether none is left.

    Raises:
        UserError: the user interrupted it, or a product was made otherwise.
    """
    notes = Notes(args.out)
    about = describe_machine(args.device)
    deadline = begun + 60 * args.minutes
    is_first = True
    for part in slices(args):
        options = run_options(args, deadline)
        if args.again and notes.failure(part.name):
            del notes.of[part.name]
        if notes.failure(part.name) or find_state(part.stage, options) is State.FINISHED:
            continue
        left = (deadline - time.monotonic()) / 60
        needed = LEAST_MINUTES if part.can_be_cut else part.minutes
        if left <= 0 or (needed > left and not is_first):
            return False
        start = time.monotonic()
        failure = run_slice(part, args.out, options)
        was_cut = failure is not None and time.monotonic() >= deadline
        if was_cut and (part.can_be_cut or not is_first):
            failure = None
        now = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
        notes.add(part.name, (time.monotonic() - start) / 60, failure, about | now)
        write_summary(args, notes)
        if was_cut:
            return False
        is_first = False
    return True


def run_options(args: argparse.Namespace, deadline: float = math.inf) -> RunOptions:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"PYTHONPATH": os.pathsep.join(paths)}
    return RunOptions(
        again=args.again, places={"OUT": args.out}, environment=environment, deadline=deadline
    )


def run_slice(part: Slice, folder: Path, options: RunOptions) -> Optional[str]:
    """Run one slice; returns why it failed.

    Raises:
        UserError: the user interrupted it.
    """
    try:
        run_stages([part.stage], folder, options)
    except UserError as error:
        if "interrupted" not in str(error):
            return str(error)
        if time.monotonic() < options.deadline:
            raise
        return "did not end within the minutes of a call; give it more with --minutes"
    return None


def describe_machine(device: str) -> dict[str, str]:
    """What figures depend on apart from their command: device, versions, commit."""
    import torch

    name = platform.processor() or platform.machine()
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        name = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return {
        "device": f"{name}, {os.cpu_count()} processor cores",
        "software": f"Python {platform.python_version()}, torch {torch.__version__}",
        "commit": commit.stdout.strip() or "unknown",
    }


# --- the summary ----------------------------------------------------------------------------------


def write_summary(args: argparse.Namespace, notes: Notes) -> None:
    parts = slices(args)
    options = run_options(args)
    finished = [part for part in parts if find_state(part.stage, options) is State.FINISHED]
    failed = [part for part in parts if notes.failure(part.name)]
    left = [part.name for part in parts if part not in finished and part not in failed]
    text = "# Figures of a GPU\n\n" if args.device == "cuda" else "# Figures of a CPU\n\n"
    text += f"Written by `{shlex.join(['python', *sys.argv])}`.\n"
    rows = [(part.name, f"{notes.of[part.name]['minutes']:.1f}") for part in finished + failed]
    text += f"\n{table(['slice', 'minutes'], rows)}"
    text += "".join(f"\nFailed: {notes.failure(part.name)}\n" for part in failed)
    text += f"\nStill to do: {', '.join(left)}.\n" if left else "\nNothing is left to do.\n"
    if not (args.tiny or args.multi30k):
        text += "\nWithout Multi30k: --multi30k was not given.\n"
    for part in finished:
        if part.result is not None:
            text += section(part, notes.of[part.name])
    write_text(args.out / "summary.md", text)


def section(part: Slice, note: dict) -> str:
    """The figures of a slice under its title, with what they depend on."""
    command = shell_command(part)
    result = part.result.read_text(encoding="utf-8").strip()
    result = result.replace("\n#", "\n###").replace("# ", "### ", result.startswith("# "))
    return (
        f"\n## {part.title}\n\n{note['date']}, {note['device']}; {note['software']}; commit "
        f"{note['commit']}.\n\n```\n{command}\n```\n\n{result}\n"
    )


def shell_command(part: Slice) -> str:
    words = ["python" if word == sys.executable else word for word in part.command]
    return shlex.join(word.removeprefix(f"{ROOT}/") for word in words)


def dry_run(args: argparse.Namespace) -> None:
    """Print the slices, the call that each is expected in, and their commands."""
    notes = Notes(args.out)
    call, left, total = 1, args.minutes, 0.0
    for part in slices(args):
        state = (
            "failed"
            if notes.failure(part.name)
            else find_state(part.stage, run_options(args)).value
        )
        if state == State.FINISHED.value:
            print(f"\n# {part.name}: done before\n{shell_command(part)}")
            continue
        needed = part.minutes
        total += needed
        if needed > left and left < args.minutes and not part.can_be_cut:
            call, left = call + 1, args.minutes
        first = call
        while needed > left:
            call, needed, left = call + 1, needed - left, args.minutes
        left -= needed
        calls = f"call {first}" if first == call else f"calls {first} to {call}"
        state = ", failed before" if state == "failed" else ""
        print(f"\n# {part.name}: {part.minutes:g} minutes, {calls}{state}\n{shell_command(part)}")
    print(f"\n# {total:g} minutes in {call} calls by estimate")


# --- the slice of the tests -----------------------------------------------------------------------


def run_tests(folder: str, out: Path) -> int:
    """Run the tests marked `gpu` below a folder and write the outcome of each."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-m", "gpu", folder]
        # a file of tests that lacks a library here does not hold up the others
        command += ["--continue-on-collection-errors", "--junit-xml", str(report)]
        subprocess.run(command, cwd=ROOT)
        if not report.exists():
            print("pytest wrote no report; see above")
            return 1
        cases = list(ElementTree.parse(report).iter("testcase"))
    outcomes = {case: outcome(case) for case in cases}
    counts = [
        f"{sum(o == kind for o, _ in outcomes.values())} {kind}"
        for kind in ("passed", "skipped", "failed")
    ]
    rows = [
        (
            f"{case.get('classname')}::{case.get('name')}",
            kind,
            f"{float(case.get('time')):.1f}",
            why,
        )
        for case, (kind, why) in outcomes.items()
    ]
    write_text(out, f"{', '.join(counts)}\n\n{table(['test', '', 's', ''], rows, text=(0, 1, 3))}")
    return 0


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    """passed, skipped or failed, and the first line of the reason."""
    for tag, kind in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        element = case.find(tag)
        if element is not None:
            return kind, (element.get("message") or "").split("\n")[0]
    return "passed", ""


# --- the command ----------------------------------------------------------------------------------


def positive(kind: Callable) -> Callable:
    def parse(text: str):
        value = kind(text)
        if not 0 < value < math.inf:
            raise ValueError
        return value

    parse.__name__ = f"positive {kind.__name__}"
    return parse


def main() -> int:
    begun = time.monotonic()
    if sys.argv[1:2] == ["--run-tests"]:
        return run_tests(sys.argv[2], Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), metavar="FOLDER")
    parser.add_argument(
        "--multi30k",
        type=Path,
        metavar="RAW",
        help="its raw text; without it that part is left out",
    )
    parser.add_argument("--minutes", type=positive(float), default=9.0, help="length of a call")
    parser.add_argument("--jobs", type=positive(int), default=6, help="training runs side by side")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: only see that all runs")
    parser.add_argument(
        "--again",
        action="store_true",
        help="try what failed once more, and make anew what was made with other options",
    )
    parser.add_argument("--dry-run", action="store_true", help="print slices and commands")
    args = parser.parse_args()
    args.out = args.out.absolute()
    args.multi30k = args.multi30k and args.multi30k.absolute()
    try:
        if args.dry_run:
            dry_run(args)
            return 0
        check_device(args.device)
        args.out.mkdir(parents=True, exist_ok=True)
        complete = run_call(args, begun)
        write_summary(args, Notes(args.out))
    except UserError as error:
        print(f"gpu.py: error: {error}", file=sys.stderr)
        return 1
    rest = "nothing is left to do" if complete else "give the same command again to go on"
    print(f"wrote {args.out / 'summary.md'}; {rest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
