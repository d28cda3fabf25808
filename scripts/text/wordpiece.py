"""Divides text, a sentence a line, into the words of a model from `pet-fairseq import-hf`.

python scripts/text/wordpiece.py FOLDER/tokenizer.json <TEXT >PIECES
"""

import argparse
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import cast

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import divide, load_divider

LINES = 1000  # at a time, so that the tokenizer can use several cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", type=Path, metavar="TOKENIZER")
    args = parser.parse_args()
    try:
        tokenizer = load_divider(args.tokenizer)
    except UserError as error:
        sys.exit(f"wordpiece.py: error: {error}")
    for stream in (sys.stdin, sys.stdout):
        cast(TextIOWrapper, stream).reconfigure(encoding="utf-8", newline="\n")
    while lines := [line for _, line in zip(range(LINES), sys.stdin)]:
        print(*divide(tokenizer, lines), sep="\n")


if __name__ == "__main__":
    main()
