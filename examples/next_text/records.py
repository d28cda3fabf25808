"""Makes records for SelfCP of plain text: some tokens, and those that follow them.

    python examples/next_text/records.py TOKENIZER OUT --prompt-tokens N --response-tokens M < TEXT

The text is cut into pieces of N + M tokens of the tokenizer, one behind the other; the first N are
the prompt, the rest is the response, and there is no query. Lines that begin with `=` are headings,
and left out.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import load_tokenizer


def windows(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Pieces of one size, without the rest."""
    for start in range(0, len(numbers) - size + 1, size):
        yield numbers[start : start + size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", type=Path, metavar="TOKENIZER")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--prompt-tokens", type=int, required=True, metavar="N")
    parser.add_argument("--response-tokens", type=int, required=True, metavar="M")
    parser.add_argument("--most", type=int, default=sys.maxsize, metavar="N", help="of records")
    args = parser.parse_args()
    try:
        tokenizer = load_tokenizer(args.tokenizer)
    except UserError as error:
        sys.exit(f"records.py: error: {error}")
    lines = (line.strip() for line in sys.stdin)
    text = "\n".join(line for line in lines if line and not line.startswith("="))
    numbers = tokenizer.encode(text, add_special_tokens=False).ids
    size = args.prompt_tokens + args.response_tokens
    pieces = list(windows(numbers, size))
    step = max(1, len(pieces) // args.most)
    records = [
        {
            "query": "",
            "prompt": tokenizer.decode(piece[: args.prompt_tokens]),
            "response": tokenizer.decode(piece[args.prompt_tokens :]),
        }
        for piece in pieces[::step][: args.most]
    ]
    if not records:
        sys.exit(f"records.py: error: the text has fewer than {size} tokens; give more")
    args.out.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    print(f"{args.out}: {len(records):,} records", file=sys.stderr)


if __name__ == "__main__":
    main()
