"""Speed of training on the CPU if the C library keeps freed memory, and if it gives it back.

    python scripts/benchmarks/allocator.py [--updates 150 --rounds 3] -- BIN OPTIONS...

BIN and OPTIONS are those of fairseq-train, for example from `pet-fairseq recipe demo --dry-run`;
nothing is saved. Recipes train with the memory kept (pet_fairseq/runner/device.py). Both ways run
in turn; the speed is the median of fairseq's own updates a second, without its first count.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial

from harness import Parser, median_ratio, report, take_turns

from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.runner.device import KEEP_MEMORY
from pet_fairseq.runner.run import find_program

WAYS = {"as it is": {}, "memory kept": KEEP_MEMORY}
SIZES = {"--updates": 150, "--rounds": 3}
TINY = {"--updates": 10, "--rounds": 1}
COLUMNS = {"allocator": "", "updates/s": format_speed, "system ms per update": ".0f"}


def measure(options: list[str], updates: int, variables: dict[str, str]) -> tuple[float, float]:
    """Updates a second, and ms per update that the processes spent in the system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime
    counts = train(options, updates, variables)
    system = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime - before
    return statistics.median(float(count["ups"]) for count in counts), 1000 * system / updates


def train(options: Sequence[str], updates: int, variables: Mapping[str, str]) -> list[dict]:
    """fairseq's counts of ten parts of a training on the CPU, without the first; nothing is saved.

    Args:
        variables: of the environment, in place of KEEP_MEMORY.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(find_program("fairseq-train"), *options, "--cpu", "--no-save"),
            *("--save-dir", folder, "--disable-validation", "--max-update", str(updates)),
            *("--log-format", "json", "--log-interval", str(max(1, updates // 10))),
        ]
        others = {k: v for k, v in os.environ.items() if k not in KEEP_MEMORY}
        done = subprocess.run(command, env={**others, **variables}, capture_output=True, text=True)
    output = done.stdout + done.stderr
    counts = logged(output)[1:]
    # not by the exit status: torch may abort a process that is through, after so short a training
    if "| done training in" not in output or not counts:
        sys.exit(f"fairseq-train failed: {done.stderr.strip().splitlines()[-1:]}")
    return counts


def logged(output: str) -> list[dict]:
    """fairseq's own counts, one for each log interval."""
    lines = (line[line.index("{") :] for line in output.splitlines() if "| train_inner |" in line)
    return [json.loads(line) for line in lines]


def main():
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("options", nargs="+", metavar="OPTION", help="of fairseq-train")
    args = parser.parse_args()
    ways = {way: partial(measure, args.options, args.updates, WAYS[way]) for way in WAYS}
    runs = take_turns(ways, args.rounds, warm_up=0)
    speeds = {way: [speed for speed, _ in measured] for way, measured in runs.items()}
    with report(args, f"{args.updates} updates", COLUMNS) as result:
        for way, measured in runs.items():
            result.add_row(way, *map(statistics.median, zip(*measured)))
        ratio = format_ratio(median_ratio(speeds["memory kept"], speeds["as it is"]))
        pairs = f"median of {args.rounds} pairs"
        result.say(f"\nspeed with the memory kept: {ratio} times ({pairs})")


if __name__ == "__main__":
    main()
