"""Key-value recall: prompts of pairs, a query for one of the keys, its value as the response.

    python make.py OUT [--pairs 10 60] [--keys 120] [--values 20] [--train 8000] [--seed 1]

Writes OUT/{train,valid,test}.jsonl with `query`, `prompt`, `response` and `distance`, how many
pairs stand between the asked one and the end of the prompt; and OUT/text.txt for the language
model, which has to learn the game before it can play it with memory: short records as text, every
second with more questions, and half as many drills, pairs told several times.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
SHORT = (1, 20)  # pairs in a text for the language model
DRILL = (4, 16)  # pairs in a drill


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
        "query": f"{chosen[asked]}?",
        "prompt": " ".join(f"{key} {value}" for key, value in zip(chosen, given)) + " answer",
        "response": given[asked],
        "distance": pairs - 1 - asked,
    }


def as_text(game: dict) -> str:
    return f"{game['query']} {game['prompt']} {game['response']}"


def questions(draw: random.Random, game: dict) -> str:
    """A game in which every pair is asked for; its text begins with "many" to say so."""
    told = game["prompt"].split()
    pairs = dict(zip(told[::2], told[1::2]))
    pairs.pop(game["query"].removesuffix("?"))
    others = [f"{key}? answer {pairs[key]}" for key in draw.sample(list(pairs), len(pairs))]
    return " ".join(["many", as_text(game), *others])


def drill(draw: random.Random, keys: list[str], values: list[str], pairs: int) -> str:
    """Pairs in some order, again in that order, and twice in orders of their own."""
    told = [f"{key} {draw.choice(values)}" for key in draw.sample(keys, pairs)]
    return " ".join(told + told + draw.sample(told, pairs) + draw.sample(told, pairs))


def vocabulary(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Keys and values: the same for all seeds of `records`."""
    known = words(args.keys + args.values, random.Random(f"{args.seed} words"))
    return known[: args.keys], known[args.keys :]


def records(seed: str, number: int, args: argparse.Namespace) -> Iterator[dict]:
    """Different draws for each seed."""
    keys, values = vocabulary(args)
    draw = random.Random(f"{args.seed} {seed}")
    for _ in range(number):
        yield record(draw, keys, values, draw.randint(*args.pairs))


def text(args: argparse.Namespace) -> list[str]:
    """Lines for the language model: --text short records and half as many drills."""
    known, draw, lines = vocabulary(args), random.Random(f"{args.seed} text"), []
    few, many = (min(number, args.pairs[1]) for number in SHORT)
    for i in range(args.text):
        game = record(draw, *known, draw.randint(few, many))
        lines.append(questions(draw, game) if i % 2 else as_text(game))
    few, many = (min(number, args.pairs[1]) for number in DRILL)
    lines += [drill(draw, *known, draw.randint(few, many)) for _ in range(args.text // 2)]
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
        lines = (json.dumps(r) for r in records(split, getattr(args, split), args))
        (args.out / f"{split}.jsonl").write_text("".join(line + "\n" for line in lines))
    (args.out / "text.txt").write_text("".join(f"{line}\n" for line in text(args)))


if __name__ == "__main__":
    main()
