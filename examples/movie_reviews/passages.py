#!/usr/bin/env python3
"""Passages of reviews between query and label, a line each: text for the language model.

    python examples/movie_reviews/passages.py RAW/train.jsonl >passages.txt

A review gives one label for all its words; its passages, 10 to 120 words and each word in one of
them, give many.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Iterator, List

FEWEST, MOST = 10, 120  # words


def cut(words: List[str], draw: random.Random) -> Iterator[List[str]]:
    """Passages of lengths drawn evenly; the last is what is left."""
    while words:
        length = draw.randint(FEWEST, MOST)
        yield words[:length]
        words = words[length:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    for line in args.records.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        for passage in cut(record["prompt"].split(), draw):
            print(record["query"], *passage, record["response"])


if __name__ == "__main__":
    main()
