"""Cleans, lowercases and divides a tokenised parallel text.

    python scripts/text/clean.py IN OUT SRC TGT [--max-length 175 --ratio 1.5] [--lowercase]
        [--valid PREFIX --valid-every 23]

Reads IN.SRC and IN.TGT, writes OUT.SRC and OUT.TGT. With --max-length only pairs are kept whose
sides both have 1 to that many tokens, are not more than --ratio times as long as each other and
have no token of over 1,000 characters: what Moses's clean-corpus-n does. Of the pairs kept, each
one whose number is a multiple of --valid-every goes to PREFIX.SRC and PREFIX.TGT instead of OUT.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from reading import BadInputError, lines, run

LONGEST_TOKEN = 1000


def pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The lines of both files side by side, without their ends.

    Raises:
        BadInputError: one is not UTF-8, or has more lines than the other.
    """
    for left, right in zip_longest(lines(source), lines(target)):
        if left is None or right is None:
            raise BadInputError(f"{source} and {target} differ in their number of lines")
        yield left, right


def is_clean(source: str, target: str, max_length: int, ratio: float) -> bool:
    """Whether clean-corpus-n would keep the pair."""
    sides = [source.split(), target.split()]
    shorter, longer = sorted(map(len, sides))
    if not 1 <= shorter <= longer <= max_length or longer / shorter > ratio:
        return False
    return all(len(token) <= LONGEST_TOKEN for side in sides for token in side)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("input", metavar="IN")
    parser.add_argument("output", metavar="OUT")
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("target", metavar="TGT")
    parser.add_argument("--max-length", type=int, help="tokens of a side; without it, no cleaning")
    parser.add_argument("--ratio", type=float, default=1.5, help="longer side over shorter side")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--valid", help="prefix of the files that get the held-out pairs")
    parser.add_argument("--valid-every", type=int, default=23)
    args = parser.parse_args()

    languages = (args.source, args.target)
    prefixes = [args.output] + ([args.valid] if args.valid else [])
    read = 0
    counts = dict.fromkeys(prefixes, 0)
    with ExitStack() as stack:
        files = {
            prefix: [
                stack.enter_context(open(f"{prefix}.{lang}.tmp", "w", encoding="utf-8"))
                for lang in languages
            ]
            for prefix in prefixes
        }
        for pair in pairs(*(Path(f"{args.input}.{lang}") for lang in languages)):
            read += 1
            if args.max_length and not is_clean(*pair, args.max_length, args.ratio):
                continue
            number = sum(counts.values()) + 1
            held_out = args.valid and number % args.valid_every == 0
            prefix = args.valid if held_out else args.output
            counts[prefix] += 1
            for text, file in zip(pair, files[prefix]):
                print(text.lower() if args.lowercase else text, file=file)
    for prefix in prefixes:
        for lang in languages:
            os.replace(f"{prefix}.{lang}.tmp", f"{prefix}.{lang}")
    print(f"{args.input}: {read} pairs;", *(f"{p}: {n};" for p, n in counts.items()))


if __name__ == "__main__":
    run(main)
