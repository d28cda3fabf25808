"""Speed of fine-tuning a classifier on the CPU: batches by length, and bfloat16.

    python scripts/benchmarks/fine_tuning.py [--updates 60 --rounds 3] -- BIN OPTIONS...

BIN and OPTIONS are those of fairseq-train without its --task, for example from `pet-fairseq recipe
glue --dry-run`; nothing is saved. The four ways run in turn, with the memory kept as in recipes;
the speed is the median of the sentences a second in fairseq's log, without its first count. Ratios
are taken within a round.
"""

import statistics
from functools import partial

from harness import Parser, median_ratio, report, take_turns
from short_training import train

from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.runner.device import KEEP_MEMORY, make_device

WAYS = {
    f"{batches}, {precision}": (task, make_device("cpu", precision).train)
    for batches, task in (
        ("fairseq's batches", "sentence_prediction"),
        ("batches by length", "pet_sentence_prediction"),
    )
    for precision in ("fp32", "bf16")
}
SIZES = {"--updates": 60, "--rounds": 3}
TINY = {"--updates": 10, "--rounds": 1}
COLUMNS = {"way": "", "sentences/s": format_speed, "to the first": format_ratio}


def measure(options: list[str], updates: int, task: str, program: tuple[str, ...]) -> float:
    """Sentences a second."""
    counts = train(program, [*options, "--task", task], updates, KEEP_MEMORY)
    return statistics.median(float(count["ups"]) * float(count["bsz"]) for count in counts)


def main():
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("options", nargs="+", metavar="OPTION", help="of fairseq-train")
    args = parser.parse_args()
    ways = {way: partial(measure, args.options, args.updates, *how) for way, how in WAYS.items()}
    measured = take_turns(ways, args.rounds, warm_up=0)
    first = next(iter(measured.values()))
    with report(args, f"{args.updates} updates", COLUMNS) as result:
        for way, speeds in measured.items():
            result.add_row(way, statistics.median(speeds), median_ratio(speeds, first))


if __name__ == "__main__":
    main()
