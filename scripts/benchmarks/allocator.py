"""Speed of training on the CPU if the C library keeps freed memory, and if it gives it back.

    python scripts/benchmarks/allocator.py [--updates 150 --rounds 3] -- BIN OPTIONS...

BIN and OPTIONS are those of fairseq-train, for example from `pet-fairseq recipe demo --dry-run`;
nothing is saved. Recipes train with the memory kept (pet_fairseq/recipes/device.py). Both ways run
in turn; the speed is the median of fairseq's own updates a second, without its first count.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

from measuring import Lines, add_out_option

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.recipes.device import KEEP_MEMORY
from pet_fairseq.recipes.runner import find_program

WAYS = {"as it is": {}, "memory kept": KEEP_MEMORY}


def train(options: list[str], updates: int, variables: dict[str, str]) -> tuple[float, float]:
    """Updates a second, and seconds per update that the processes spent in the system."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(find_program("fairseq-train"), *options, "--cpu", "--no-save", "--save-dir", folder),
            *("--disable-validation", "--max-update", str(updates), "--log-format", "json"),
            *("--log-interval", str(max(1, updates // 10))),
        ]
        others = {k: v for k, v in os.environ.items() if k not in KEEP_MEMORY}
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime
        done = subprocess.run(command, env={**others, **variables}, capture_output=True, text=True)
        system = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime - before
    speeds = [float(line["ups"]) for line in logged(done.stdout + done.stderr)][1:]
    if done.returncode or not speeds:
        sys.exit(f"fairseq-train failed: {done.stderr.strip().splitlines()[-1:]}")
    return statistics.median(speeds), system / updates


def logged(output: str) -> list[dict]:
    """fairseq's own counts, one for each log interval."""
    lines = (line[line.index("{") :] for line in output.splitlines() if "| train_inner |" in line)
    return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("options", nargs="+", metavar="OPTION", help="of fairseq-train")
    add_out_option(parser)
    args = parser.parse_args()
    say = Lines(args.out)
    measured = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way, variables in WAYS.items():
            measured[way].append(train(args.options, args.updates, variables))
    say(table_head(["allocator", "updates/s", "system ms per update"]))
    for way, runs in measured.items():
        speed, system = (statistics.median(values) for values in zip(*runs))
        say(table_row([way, f"{speed:.2f}", f"{1000 * system:.0f}"]))
    pairs = zip(*measured.values())
    ratio = statistics.median(kept[0] / plain[0] for plain, kept in pairs)
    say(f"\nspeed with the memory kept: {ratio:.2f} times (median of {args.rounds} pairs)")
    say.write()


if __name__ == "__main__":
    main()
