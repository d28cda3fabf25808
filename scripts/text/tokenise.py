"""Moses tokens of raw text, by sacremoses: reads lines from standard input, writes their tokens.

    python scripts/text/tokenise.py LANG [--processes 2] [--no-dash-splits] <TEXT >TOKENS

The tokens are those of `fairseq-interactive --tokenizer moses`, where --no-dash-splits is called
--moses-no-dash-splits: special characters are escaped, as &apos; for ', and a hyphen between two
letters becomes @-@ unless it is left alone. sacremoses's own command is not used: whether its -x
switches escaping on or off depends on the version of click.
"""

import argparse
import io
import sys
from functools import partial
from multiprocessing import Pool

from reading import decoded, run
from sacremoses import MosesTokenizer

LINES = 1000  # that a process gets at a time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("language", metavar="LANG")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--no-dash-splits", action="store_true", help="leave hyphens in words alone"
    )
    args = parser.parse_args()

    tokenise = partial(
        MosesTokenizer(args.language).tokenize,
        aggressive_dash_splits=not args.no_dash_splits,
        return_str=True,
        escape=True,
    )
    lines = decoded(sys.stdin.buffer, "stdin")
    output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    if args.processes > 1:
        with Pool(args.processes) as pool:
            output.writelines(f"{line}\n" for line in pool.imap(tokenise, lines, LINES))
    else:
        output.writelines(f"{tokenise(line)}\n" for line in lines)
    output.flush()


if __name__ == "__main__":
    run(main)
