"""Accuracy of generated values by distance from the end of the prompt.

    python by_distance.py TEST.jsonl OUTPUT...

OUTPUT is what fairseq-generate printed for the test set, made with --bpe sentencepiece. A Markdown
table: a row for each output, a column for each quarter of the distances.
"""

import argparse
import json
import sys
from pathlib import Path

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.results.fairseq_output import numbered_lines

PARTS = 4


def quarters(distances: list[int]) -> list[tuple[int, int]]:
    """Ranges of distances, first and last, with about as many records in each."""
    ordered = sorted(distances)
    ends = [ordered[len(ordered) * i // PARTS - 1] for i in range(1, PARTS + 1)]
    starts = [ordered[0], *(end + 1 for end in ends[:-1])]
    return [(a, b) for a, b in zip(starts, ends) if a <= b]


def accuracies(records: list[dict], generated: dict[int, str]) -> list[float]:
    """The accuracies of each quarter and of all records, in percent."""
    right = [generated[i] == record["response"] for i, record in enumerate(records)]
    distances = [record["distance"] for record in records]
    ranges = [*quarters(distances), (min(distances), max(distances))]
    parts = [[r for r, d in zip(right, distances) if a <= d <= b] for a, b in ranges]
    return [100 * sum(part) / len(part) for part in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("test", type=Path)
    parser.add_argument("outputs", type=Path, nargs="+")
    args = parser.parse_args()
    records = [json.loads(line) for line in args.test.read_text().splitlines()]
    ranges = [f"{a} to {b}" for a, b in quarters([record["distance"] for record in records])]
    print(table_head(["output", *ranges, "all"]))
    for path in args.outputs:
        texts = numbered_lines(path.read_text(encoding="utf-8"), "D")
        generated = {number: text.strip() for number, text in texts.items()}
        if sorted(generated) != list(range(len(records))):
            sys.exit(
                f"by_distance.py: {path}: {len(generated)} answers to {len(records)} questions"
            )
        cells = [f"{value:.1f}" for value in accuracies(records, generated)]
        print(table_row([path.parent.name, *cells]))


if __name__ == "__main__":
    main()
