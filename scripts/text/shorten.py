"""Drops or cuts questions that have too many BPE pieces, in place.

    python scripts/text/shorten.py PREFIX LENGTH [--cut] [--keep-end TEXT]

Reads and replaces PREFIX.text and PREFIX.answer. A question of more than LENGTH pieces is dropped
with its answer; with --cut it loses its last pieces instead or, if it ends in TEXT, those before.
"""

import argparse
import os
from pathlib import Path

from reading import BadInputError, lines, run


def end_length(pieces: list[str], end: str) -> int:
    """How many of the last pieces spell `end`, spaces aside; 0 if they do not."""
    end, spelled = "".join(end.split()), ""
    for count, piece in enumerate(reversed(pieces), 1):
        spelled = piece.removesuffix("@@") + spelled
        if len(spelled) >= len(end):
            return count if spelled == end else 0
    return 0


def cut(pieces: list[str], length: int, end: str) -> list[str]:
    """The first pieces and those of the end, `length` in all."""
    kept = min(end_length(pieces, end), length)
    return pieces[: length - kept] + pieces[len(pieces) - kept :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prefix")
    parser.add_argument("length", type=int)
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--keep-end", default="")
    args = parser.parse_args()

    paths = [Path(f"{args.prefix}.{kind}") for kind in ("text", "answer")]
    questions, answers = (list(lines(path)) for path in paths)
    kept, long = [], 0
    for question, answer in zip(questions, answers, strict=True):
        pieces = question.split()
        too_long = len(pieces) > args.length
        long += too_long
        if too_long and args.cut:
            question = " ".join(cut(pieces, args.length, args.keep_end))
        if args.cut or not too_long:
            kept.append((question, answer))
    if not kept:
        raise BadInputError(f"{paths[0]}: no question of up to {args.length} pieces; allow more")
    for path, texts in zip(paths, zip(*kept)):
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        os.replace(temporary, path)
    done = "cut" if args.cut else "dropped"
    print(f"{args.prefix}: {long} of {len(questions)} questions over {args.length} pieces {done}")


if __name__ == "__main__":
    run(main)
