"""Speed of training on the CPU if the C library keeps freed memory, and if it gives it back.

    python scripts/benchmarks/allocator.py [--updates 150 --rounds 3] -- BIN OPTIONS...

BIN and OPTIONS are those of fairseq-train, for example from `pet-fairseq recipe demo --dry-run`;
nothing is saved. Recipes train with the memory kept (pet_fairseq/runner/device.py). Both ways run
in turn; the speed is the median of fairseq's own updates a second, without its first count.
"""

import argparse
import resource
import statistics

from measuring import Lines, add_out_option
from short_training import train

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.rounding import format_ratio, format_speed
from pet_fairseq.runner.device import KEEP_MEMORY

WAYS = {"as it is": {}, "memory kept": KEEP_MEMORY}


def measure(options: list[str], updates: int, variables: dict[str, str]) -> tuple[float, float]:
    """Updates a second, and seconds per update that the processes spent in the system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime
    counts = train(("fairseq-train",), options, updates, variables)
    system = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime - before
    return statistics.median(float(count["ups"]) for count in counts), system / updates


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
            measured[way].append(measure(args.options, args.updates, variables))
    say(table_head(["allocator", "updates/s", "system ms per update"]))
    for way, runs in measured.items():
        speed, system = (statistics.median(values) for values in zip(*runs))
        say(table_row([way, format_speed(speed), f"{1000 * system:.0f}"]))
    pairs = zip(*measured.values())
    ratio = statistics.median(kept[0] / plain[0] for plain, kept in pairs)
    times = f"{format_ratio(ratio)} times (median of {args.rounds} pairs)"
    say(f"\nspeed with the memory kept: {times}")
    say.write()


if __name__ == "__main__":
    main()
