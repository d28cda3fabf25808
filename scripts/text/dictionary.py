"""Writes a dictionary for fairseq-preprocess --srcdict: the words of some texts and their counts.

    python scripts/text/dictionary.py OUT FILE... [--sentinels 100] [--by-name]

The most frequent word comes first, words of one count in the order of their names; with --by-name
all words are in that order. --sentinels N adds N words at the end, <sentinel:0> last, for
fairseq's span_masked_lm. No words are added to fill up to a multiple of 8, as fairseq-preprocess
does with dictionaries it makes itself: span_masked_lm would take those for sentinels.
"""

import argparse
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from reading import BadInputError, lines, run


def counted(files: Iterable[Path]) -> Counter:
    """How often each word is in the files."""
    counts: Counter = Counter()
    for path in files:
        for line in lines(path):
            counts.update(line.split())
    return counts


def entries(counts: Counter, sentinels: int, by_name: bool) -> list[tuple[str, int]]:
    """The words of the dictionary in its order; sentinels have count 0."""
    words = sorted(counts.items(), key=lambda item: (0 if by_name else -item[1], item[0]))
    return words + [(f"<sentinel:{i}>", 0) for i in reversed(range(sentinels))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--sentinels", type=int, default=0)
    parser.add_argument("--by-name", action="store_true")
    args = parser.parse_args()

    counts = counted(args.files)
    if not counts:
        raise BadInputError(f"{', '.join(map(str, args.files))}: no words; give other files")
    words = entries(counts, args.sentinels, args.by_name)
    temporary = Path(f"{args.out}.tmp")
    temporary.write_text("".join(f"{word} {count}\n" for word, count in words), encoding="utf-8")
    os.replace(temporary, args.out)
    print(f"{args.out}: {len(counts)} words, {args.sentinels} sentinels")


if __name__ == "__main__":
    run(main)
