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
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]  # works without an installation, and from anywhere

from gpu_slices import Slice, slices  # noqa: E402
from harness import machine  # noqa: E402

from pet_fairseq.devices import check_device  # noqa: E402
from pet_fairseq.errors import UserError  # noqa: E402
from pet_fairseq.files import write_json, write_text  # noqa: E402
from pet_fairseq.markdown import table  # noqa: E402
from pet_fairseq.runner.run import run_stages  # noqa: E402
from pet_fairseq.runner.skipping import RunOptions, State, find_state  # noqa: E402

LEAST_MINUTES = 1.0  # with fewer left, not even a training that can be cut is begun


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
    about = {"device": machine(args.device), "commit": commit()}
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


def commit() -> str:
    """The commit of this repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


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
    assert part.result is not None, "slices without figures have no section"
    result = part.result.read_text(encoding="utf-8").strip()
    result = result.replace("\n#", "\n###").replace("# ", "### ", result.startswith("# "))
    return (
        f"\n## {part.title}\n\n{note['date']}, {note['device']}; commit {note['commit']}.\n\n"
        f"```\n{command}\n```\n\n{result}\n"
    )


def shell_command(part: Slice) -> str:
    words = map(str, part.stage.words())
    shown = ("python" if word == sys.executable else word for word in words)
    return shlex.join(word.removeprefix(f"{ROOT}/") for word in shown)


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
