"""Key-value recall: prompts of pairs, a query for one of the keys, its value as the response.

    python make.py OUT [--pairs 10 60] [--keys 120] [--values 20] [--train 8000] [--seed 1]

Writes OUT/{train,valid,test}.jsonl with `query`, `prompt`, `response` and `distance`, how many
pairs stand between the asked one and the end of the prompt; and OUT/text.txt, short records as text
for the language model, which has to learn the game before it can play it with memory.
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Iterator

SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
SHORT = (2, 12)  # pairs in a text for the language model


def words(number: int, draw: random.Random) -> list[str]:
    """So many different words of two syllables."""
    every = [a + b for a in SYLLABLES for b in SYLLABLES]
    return draw.sample(every, number)


def record(draw: random.Random, keys: list[str], values: list[str], pairs: int) -> dict:
    """One game; every pair is asked for equally often."""
    chosen = draw.sample(keys, pairs)
    given = [draw.choice(values) for _ in chosen]
    asked = draw.randrange(pairs)
    return {
        "query": f"what is {chosen[asked]}?",
        "prompt": " ".join(f"{key} is {value}." for key, value in zip(chosen, given)),
        "response": given[asked],
        "distance": pairs - 1 - asked,
    }


def records(seed: str, number: int, args: argparse.Namespace, pairs: tuple) -> Iterator[dict]:
    """Different draws for each seed, the same words for all."""
    known = words(args.keys + args.values, random.Random(f"{args.seed} words"))
    keys, values = known[: args.keys], known[args.keys :]
    draw = random.Random(f"{args.seed} {seed}")
    for _ in range(number):
        yield record(draw, keys, values, draw.randint(*pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, nargs=2, default=(10, 60), metavar=("LOW", "HIGH"))
    for name, value in (("keys", 120), ("values", 20), ("text", 40000), ("train", 8000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("valid", 500), ("test", 1000), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    low, high = args.pairs
    if not 1 <= low <= high <= args.keys:
        sys.exit(f"make.py: --pairs {low} {high}: give 1 <= LOW <= HIGH <= --keys {args.keys}")
    if args.keys + args.values > len(SYLLABLES) ** 2:
        sys.exit(f"make.py: --keys and --values: at most {len(SYLLABLES) ** 2} together")
    args.out.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        lines = (json.dumps(r) for r in records(split, getattr(args, split), args, (low, high)))
        (args.out / f"{split}.jsonl").write_text("".join(line + "\n" for line in lines))
    short = (min(SHORT[0], high), min(SHORT[1], high))
    games = records("text", args.text, args, short)
    text = (f"{r['query']} {r['prompt']} {r['response']}\n" for r in games)
    (args.out / "text.txt").write_text("".join(text))


if __name__ == "__main__":
    main()
