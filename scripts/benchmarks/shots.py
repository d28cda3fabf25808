#!/usr/bin/env python3
"""Demonstrations as text or from a bank: throughput and memory over shots (SelfCP, Figure 6).

    python scripts/benchmarks/shots.py [--shots 1 4 16 --demonstration 256 --device cuda]

A language model with random weights generates --new tokens after demonstrations and a short prompt.
The demonstrations are tokens, or memory tokens that a bank holds. Every way runs with every number
of shots in a process of its own, for its peak memory; times are medians over repeats.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from measuring import Lines, add_device_option, add_out_option, parse, peak, seconds, start_peak
from selfcp import make_generator, make_model, make_prompts

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.rounding import format_ratio, format_speed
from pet_fairseq.selfcp.bank.bank import create
from pet_fairseq.selfcp.bank.demonstrations import fill, made_with
from pet_fairseq.selfcp.manifest import Source

WAYS = ("text", "bank")
PROMPT = 16  # tokens after the demonstrations


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
def run_one(args, way):
    """Measures one way and number of shots: seconds, memory and tokens read."""
    (shots,) = args.shots
    model, dictionary = make_model(args, "full")
    length = PROMPT + (shots * args.demonstration if way == "text" else 0)
    sample = {"net_input": make_prompts(args, length, args.rows, dictionary)}
    generator = make_generator(args, model, dictionary)
    short = {"net_input": make_prompts(args, PROMPT, 1, dictionary)}
    generator.generate([model], short)  # the first call is slow
    if way == "bank":
        model.cfg.bank, model.cfg.shots = args.bank, shots
        model.encoder.read(**short["net_input"])  # opens the bank
    before = start_peak(args.device)
    taken = seconds(args.device, generator.generate, [model], sample)
    memory = (peak(args.device) - before) / 1e6
    read = int(model.encoder.read(**sample["net_input"]).lengths[0])
    return {"seconds": taken, "memory": memory, "read": read}


def measure(args, way, shots, bank):
    """Runs one way in a process of its own and returns what it measured."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one", way, "--bank", bank]
    command += ["--shots", str(shots)]  # the last one counts
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text.splitlines()[-1])


def compare(args, bank, say):
    say(
        f"{args.rows} prompts of {PROMPT} tokens after demonstrations of {args.demonstration}, "
        f"{args.new} new tokens, ratio {args.ratio:g}; {args.layers} layers of width {args.width}, "
        f"{args.device}\n"
    )
    columns = ["tokens read", "responses/s", "peak memory MB"]
    both = [f"as text: {columns[0]}", *columns[1:], f"from a bank: {columns[0]}", *columns[1:]]
    say(table_head(["shots", *both, "times as fast"], text=()))
    for shots in args.shots:
        runs_of = {way: [] for way in WAYS}
        for i in range(args.repeats):
            for way in WAYS[:: 1 if i % 2 else -1]:
                runs_of[way].append(measure(args, way, shots, bank))
        cells = [str(shots)]
        for runs in runs_of.values():
            m = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            speed = format_speed(args.rows / m["seconds"])
            cells += [f"{m['read']:,}", speed, f"{m['memory']:.0f}"]
        pairs = zip(*runs_of.values())
        ratio = statistics.median(text["seconds"] / bank["seconds"] for text, bank in pairs)
        say(table_row([*cells, format_ratio(ratio)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    for name, value in (("demonstration", 256), ("new", 64), ("window", 512), ("rows", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("width", 512), ("layers", 6), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--ratio", type=float, default=12)
    add_device_option(parser)
    add_out_option(parser)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--bank", help=argparse.SUPPRESS)
    args = parse(parser)
    args.prompt = max(args.shots) * args.demonstration  # the model has positions for twice that
    if args.one:
        print(json.dumps(run_one(args, args.one)))
        return
    with tempfile.TemporaryDirectory() as bank:
        make_bank(args, Path(bank))
        say = Lines(args.out)
        compare(args, bank, say)
        say.write()


if __name__ == "__main__":
    main()
