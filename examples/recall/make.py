"""Key-value recall: prompts of pairs, a query for one of the keys, its value as the response.

    python make.py OUT [--pairs 10 60] [--keys 120] [--values 20] [--train 8000] [--seed 1]

Writes OUT/{train,valid,test}.jsonl with `query`, `prompt`, `response` and `distance`, how many
pairs stand between the asked one and the end of the prompt; and OUT/text.txt for the language
model, which has to learn the game before it can play it with memory: short records as text, and
half as many drills, pairs that are told twice, where every second telling can be known.
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Iterator

SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
SHORT = (2, 20)  # pairs in a text for the language model


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


def drill(draw: random.Random, keys: list[str], values: list[str], pairs: int) -> str:
    """Each pair twice, in any order."""
    told = [f"{key} is {draw.choice(values)}." for key in draw.sample(keys, pairs)] * 2
    draw.shuffle(told)
    return " ".join(told)


def vocabulary(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Keys and values: the same for all seeds of `records`."""
    known = words(args.keys + args.values, random.Random(f"{args.seed} words"))
    return known[: args.keys], known[args.keys :]


def records(seed: str, number: int, args: argparse.Namespace, pairs: tuple) -> Iterator[dict]:
    """Different draws for each seed."""
    keys, values = vocabulary(args)
    draw = random.Random(f"{args.seed} {seed}")
    for _ in range(number):
        yield record(draw, keys, values, draw.randint(*pairs))


def text(args: argparse.Namespace) -> list[str]:
    """Lines for the language model: --text short records and half as many drills."""
    few, many = (min(number, args.pairs[1]) for number in SHORT)
    games = records("text", args.text, args, (few, many))
    lines = [f"{r['query']} {r['prompt']} {r['response']}" for r in games]
    draw = random.Random(f"{args.seed} drills")
    for _ in range(args.text // 2):
        lines.append(drill(draw, *vocabulary(args), draw.randint(1, max(1, many // 2))))
    return lines


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
    (args.out / "text.txt").write_text("".join(f"{line}\n" for line in text(args)))


if __name__ == "__main__":
    main()
