"""Speed of fine-tuning a classifier on the CPU: batches by length, and bfloat16.

    python scripts/benchmarks/fine_tuning.py [--updates 60 --rounds 3] -- BIN OPTIONS...

BIN and OPTIONS are those of fairseq-train without its --task, for example from `pet-fairseq recipe
glue --dry-run`; nothing is saved. The four ways run in turn, with the memory kept as in recipes;
the speed is the median of the sentences a second in fairseq's log, without its first count. Ratios
are taken within a round.
"""

import argparse
import statistics

from measuring import Lines, add_out_option
from short_training import train

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.rounding import format_ratio, format_speed
from pet_fairseq.runner.device import KEEP_MEMORY, make_device

WAYS = {
    f"{batches}, {precision}": (task, make_device("cpu", precision).train)
    for batches, task in (
        ("fairseq's batches", "sentence_prediction"),
        ("batches by length", "pet_sentence_prediction"),
    )
    for precision in ("fp32", "bf16")
}


def measure(options: list[str], updates: int, task: str, program: tuple[str, ...]) -> float:
    """Sentences a second."""
    counts = train(program, [*options, "--task", task], updates, KEEP_MEMORY)
    return statistics.median(float(count["ups"]) * float(count["bsz"]) for count in counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("options", nargs="+", metavar="OPTION", help="of fairseq-train")
    add_out_option(parser)
    args = parser.parse_args()
    say = Lines(args.out)
    measured = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way, (task, program) in WAYS.items():
            measured[way].append(measure(args.options, args.updates, task, program))
    first = next(iter(measured.values()))
    say(table_head(["way", "sentences/s", "to the first"]))
    for way, speeds in measured.items():
        ratio = statistics.median(speed / plain for speed, plain in zip(speeds, first))
        say(table_row([way, format_speed(statistics.median(speeds)), format_ratio(ratio)]))
    say.write()


if __name__ == "__main__":
    main()
