"""Divides plain text for pre-training into training and validation.

    python scripts/text/raw_text.py OUT FILE... [--valid-every 100]

A line is a sentence or a paragraph; empty ones are left out and other white space becomes single
spaces. Of the rest each line whose number is a multiple of --valid-every goes to
OUT/valid.raw_text, the others to OUT/train.raw_text.
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from reading import BadInputError, lines, run


def texts(files: Iterable[Path]) -> Iterator[str]:
    """The lines of all files that are not empty."""
    for path in files:
        yield from filter(None, (" ".join(line.split()) for line in lines(path)))


def divide(files: list[Path], train: Path, valid: Path, every: int) -> list[int]:
    """Write both parts and return their numbers of lines."""
    counts = [0, 0]
    with train.open("w", encoding="utf-8") as kept, valid.open("w", encoding="utf-8") as held_out:
        for number, line in enumerate(texts(files), 1):
            part = int(number % every == 0)
            counts[part] += 1
            print(line, file=(kept, held_out)[part])
    if 0 in counts:
        where = ", ".join(map(str, files))
        raise BadInputError(f"{where}: {sum(counts)} lines, fewer than {every}; give more text")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--valid-every", type=int, default=100)
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    paths = [args.out / f"{split}.raw_text" for split in ("train", "valid")]
    temporary = [path.with_name(path.name + ".tmp") for path in paths]
    train, valid = temporary
    try:
        counts = divide(args.files, train, valid, args.valid_every)
        for old, new in zip(temporary, paths):
            os.replace(old, new)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    print(f"{args.out}: {counts[0]} lines to train on, {counts[1]} to validate on")


if __name__ == "__main__":
    run(main)
