#!/usr/bin/env python3
"""Demonstrations as text or from a bank: throughput and memory over shots (SelfCP, Figure 6).

    python scripts/benchmarks/shots.py [--shots 1 4 16 --demonstration 256 --device cuda]

A language model with random weights generates --new tokens after demonstrations and a short prompt.
The demonstrations are tokens, or memory tokens that a bank holds. Every way runs with every number
of shots in a process of its own, for its peak memory; times are medians over repeats.
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path

import torch
from harness import (
    Parser,
    in_own_process,
    median_ratio,
    memory_of,
    report,
    seconds,
    take_turns,
)
from selfcp import TINY_MODEL, make_generator, make_model, make_prompts

from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.selfcp.bank.bank import create
from pet_fairseq.selfcp.bank.demonstrations import fill, made_with
from pet_fairseq.selfcp.bank.manifest import Source

WAYS = {"text": "as text", "bank": "from a bank"}
PROMPT = 16  # tokens after the demonstrations
SIZES = {
    **{"--shots": [1, 2, 4, 8, 16, 32], "--demonstration": 256, "--new": 64, "--window": 512},
    **{"--rows": 2, "--width": 512, "--layers": 6, "--repeats": 3, "--ratio": 12.0},
}
TINY = {"--shots": [1, 2], "--demonstration": 40, **TINY_MODEL}
MEASURED = {"tokens read": ",d", "responses/s": format_speed, "peak memory MB": ".0f"}
COLUMNS = {
    "shots": "d",
    **{f"{way}: {name}": how for way in WAYS.values() for name, how in MEASURED.items()},
    "times as fast": format_ratio,
}


def make_bank(args, folder):
    """Twice as many demonstrations of random words as the most shots, compressed."""
    model, dictionary = make_model(args, "former")
    draw = torch.Generator().manual_seed(3)

    def words(number):
        return torch.randint(dictionary.nspecial, len(dictionary), (number,), generator=draw)

    records = [
        {"query": words(8), "prompt": words(args.demonstration - 16), "response": words(8)}
        for _ in range(2 * max(args.shots))
    ]
    create(folder, args.width, args.ratio, made_with(model.encoder))
    source = Source("random words", "train", "0" * 64, len(records), 0)
    fill(folder, model.encoder, records, source, 8, lambda _: None)


@torch.inference_mode()
def run_one(args, way, shots, bank):
    """Measures one way and number of shots, in this process: tokens read, seconds, bytes."""
    model, dictionary = make_model(args, "full")
    length = PROMPT + (shots * args.demonstration if way == "text" else 0)
    sample = {"net_input": make_prompts(args, length, args.rows, dictionary)}
    generator = make_generator(args, model, dictionary)
    short = {"net_input": make_prompts(args, PROMPT, 1, dictionary)}
    generator.generate([model], short)  # the first call is slow
    if way == "bank":
        model.cfg.bank, model.cfg.shots = bank, shots
        model.encoder.read(**short["net_input"])  # opens the bank
    memory, taken = memory_of(
        args.device, seconds, args.device, generator.generate, [model], sample
    )
    return int(model.encoder.read(**sample["net_input"]).lengths[0]), taken, memory


def compare(args, shots, bank):
    """The values of a row."""
    ways = {way: partial(in_own_process, run_one, args, way, shots, bank) for way in WAYS}
    runs = take_turns(ways, args.repeats, warm_up=0)
    columns = {way: list(zip(*measured)) for way, measured in runs.items()}
    cells = []
    for read, taken, memory in columns.values():
        speed = args.rows / statistics.median(taken)
        cells += [read[0], speed, statistics.median(memory) / 1e6]
    return [shots, *cells, median_ratio(columns["text"][1], columns["bank"][1])]


def main():
    args = Parser(__doc__, SIZES, TINY).parse_args()
    args.prompt = max(args.shots) * args.demonstration  # the model has positions for twice that
    about = (
        f"{args.rows} prompts of {PROMPT} tokens after demonstrations of {args.demonstration}, "
        f"{args.new} new tokens, ratio {args.ratio:g}; {args.layers} layers of width {args.width}, "
        f"{args.device}"
    )
    with tempfile.TemporaryDirectory() as bank, report(args, about, COLUMNS) as result:
        make_bank(args, Path(bank))
        for shots in args.shots:
            result.add_row(*compare(args, shots, bank))


if __name__ == "__main__":
    main()
