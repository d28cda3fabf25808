"""Divides text, a sentence a line, into the pieces of a BERT from `pet-fairseq import-bert`.

python scripts/text/wordpiece.py FOLDER/tokenizer.json <TEXT >PIECES
"""

import argparse
import sys
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.pretrained.tokenizer_file import load_tokenizer

LINES = 1000  # at a time, so that the tokenizer can use several cores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", type=Path, metavar="TOKENIZER")
    args = parser.parse_args()
    try:
        tokenizer = load_tokenizer(args.tokenizer)
    except UserError as error:
        sys.exit(f"wordpiece.py: error: {error}")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    while lines := [line for _, line in zip(range(LINES), sys.stdin)]:
        for pieces in tokenizer.encode_batch(lines, add_special_tokens=False):
            print(" ".join(pieces.tokens))


if __name__ == "__main__":
    main()
