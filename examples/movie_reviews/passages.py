#!/usr/bin/env python3
"""Passages of reviews, each with the query and the label of its review.

    python examples/movie_reviews/passages.py RAW/train.jsonl >passages.txt
    python examples/movie_reviews/passages.py RAW/train.jsonl --json --words 100 300 >passages.jsonl

A review gives one label for all its words; its passages, each word in one of them, give many. As
lines of text they are for the language model, as JSON lines for its memory.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path


def cut(words: list[str], fewest: int, most: int, draw: random.Random) -> Iterator[list[str]]:
    """Passages of lengths drawn evenly; the last is what is left."""
    while words:
        length = draw.randint(fewest, most)
        yield words[:length]
        words = words[length:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--words", type=int, nargs=2, default=(10, 120), metavar=("LOW", "HIGH"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    low, high = args.words
    if not 1 <= low <= high:
        sys.exit(f"passages.py: --words {low} {high}: give 1 <= LOW <= HIGH")
    draw = random.Random(args.seed)
    for line in args.records.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        for words in cut(record["prompt"].split(), low, high, draw):
            passage = {**record, "prompt": " ".join(words)}
            print(json.dumps(passage) if args.json else " ".join(passage.values()))


if __name__ == "__main__":
    main()
