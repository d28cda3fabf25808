"""Divides text, a sentence a line, into the words of a model from `pet-fairseq import-hf`.

python scripts/text/wordpiece.py FOLDER/tokenizer.json <TEXT >PIECES
"""

import argparse
import sys
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import cast

from reading import BadInputError, decoded, run

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import load_segmenter, segment

LINES = 1000  # at a time, so that the tokenizer can use several cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", type=Path, metavar="TOKENIZER")
    args = parser.parse_args()
    try:
        tokenizer = load_segmenter(args.tokenizer)
    except UserError as error:
        raise BadInputError(str(error)) from error
    cast(TextIOWrapper, sys.stdout).reconfigure(encoding="utf-8", newline="\n")
    texts = decoded(sys.stdin.buffer, "stdin")
    while some := list(islice(texts, LINES)):
        print(*segment(tokenizer, some), sep="\n")


if __name__ == "__main__":
    run(main)
