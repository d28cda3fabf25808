#!/usr/bin/env python3
"""What memory tokens cost and save: long prompts cut, compressed or read in full (SelfCP, Table 7).

    python scripts/benchmarks/selfcp.py [--prompt 1024 --new 128 --width 512 --layers 6]
        [--device cuda]

A language model with random weights generates --new tokens after each prompt. Every way runs in a
process of its own, in turn with the others, for its peak memory; times are medians over repeats.
A second table compresses the segments of a prompt in one batch and one after another.
"""

import argparse
import json
import statistics
import subprocess
import sys
from argparse import Namespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.sequence_generator import SequenceGenerator
from measuring import Lines, add_device_option, add_out_option, parse, peak, seconds, start_peak
from torch.utils.flop_counter import FlopCounterMode

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.rounding import format_ratio
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig

WAYS = {"truncated": "truncate", "compressed": "former", "full": "full"}
WORDS = 1000


def make_model(args, strategy):
    dictionary = Dictionary()
    for i in range(WORDS):
        dictionary.add_symbol(f"w{i}")
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    task.output_dictionary = dictionary
    options = Namespace(
        decoder_layers=args.layers,
        decoder_embed_dim=args.width,
        decoder_input_dim=args.width,
        decoder_output_dim=args.width,
        decoder_ffn_embed_dim=4 * args.width,
        decoder_attention_heads=args.width // 64,
        max_target_positions=max(8192, 2 * args.prompt),
        tokens_per_sample=max(8192, 2 * args.prompt),
        share_decoder_input_output_embed=True,
    )
    ARCH_CONFIG_REGISTRY["transformer_lm"](options)
    options._name = options.arch = "transformer_lm"
    torch.manual_seed(1)
    cfg = SelfCpConfig(
        backbone_path=__file__,  # it has weights of its own; a bank keeps this file's hash
        window=args.window,
        memory_ratio=args.ratio,
        prompt_strategy=strategy,
        max_compressor_tokens=10**9,
    )
    model = SelfCpModel(cfg, build_model(options, task), dictionary)
    return model.to(args.device).eval(), dictionary


def make_prompts(args, length, rows, dictionary):
    """Prompts of random words after a query of 8, as a reader takes them."""
    draw = torch.Generator().manual_seed(2)
    tokens = torch.randint(
        dictionary.nspecial, len(dictionary), (rows, 10 + length), generator=draw
    )
    tokens[:, 0], tokens[:, 9] = dictionary.eos(), dictionary.bos()
    lengths = torch.full((rows,), tokens.size(1))
    return {"src_tokens": tokens.to(args.device), "src_lengths": lengths.to(args.device)}


def make_generator(args, model, dictionary):
    """A greedy generator of exactly so many new tokens."""
    return SequenceGenerator(
        [model], dictionary, beam_size=1, max_len_a=0, max_len_b=args.new, min_len=args.new
    )


@torch.inference_mode()
def run_one(args, way):
    """Measures one way once: seconds, memory and, if asked for, multiply-adds."""
    model, dictionary = make_model(args, WAYS[way])
    sample = {"net_input": make_prompts(args, args.prompt, args.rows, dictionary)}
    generator = make_generator(args, model, dictionary)
    model.encoder.read(**make_prompts(args, 16, 1, dictionary))  # the first call is slow
    before = start_peak(args.device)
    read = seconds(args.device, model.encoder, **sample["net_input"])
    total = seconds(args.device, generator.generate, [model], sample)
    result = {"read": read, "total": total, "memory": (peak(args.device) - before) / 1e6}
    if args.flops:
        with FlopCounterMode(display=False) as counter:
            generator.generate([model], sample)
        result["flops"] = counter.get_total_flops() / 2
    return result


def compare_ways(args, say):
    """Prints a table that compares the ways, each measured by processes of this script."""
    runs_of = {way: [] for way in WAYS}
    for i in range(args.repeats):
        for way in list(WAYS)[:: 1 if i % 2 else -1]:
            command = [sys.executable, __file__, *sys.argv[1:], "--one", way]
            command += ["--flops"] if i == 0 else []
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            runs_of[way].append(json.loads(text.splitlines()[-1]))
    say(
        f"{args.rows} prompts of {args.prompt} tokens, {args.new} new ones, window {args.window}, "
        f"ratio {args.ratio:g}; {args.layers} layers of width {args.width}, {args.device}\n"
    )
    header = ["way", "read s", "all s", "to full", "multiply-adds, 10^9", "to full"]
    say(table_head([*header, "peak memory MB"]))
    medians = {
        way: {k: statistics.median(r[k] for r in runs if k in r) for k in runs[0] | runs[-1]}
        for way, runs in runs_of.items()
    }
    full = medians["full"]
    for way, m in medians.items():
        ratio = format_ratio(m["total"] / full["total"])
        cells = [f"{m['read']:.2f}", f"{m['total']:.2f}", ratio]
        cells += [f"{m['flops'] / 1e9:.1f}", f"{m['flops'] / full['flops']:.2f}"]
        say(table_row([way, *cells, f"{m['memory']:.0f}"]))


@torch.inference_mode()
def compare_batches(args, say):
    """Prints how much faster segments are compressed in one batch than one after another."""
    model, dictionary = make_model(args, "concat")
    header = ["tokens to compress", "segments", "one by one s", "one batch s", "times as fast"]
    say("\n" + table_head(header, text=()))
    for length in args.lengths:
        for number in (2, 4, 8, 16):
            model.cfg.window = length // number
            prompts = make_prompts(args, length + model.cfg.window, 1, dictionary)
            taken = {1: [], 10**9: []}
            for i in range(args.repeats + 1):  # the first one warms up
                for max_tokens in list(taken)[:: 1 if i % 2 else -1]:
                    model.cfg.max_compressor_tokens = max_tokens
                    taken[max_tokens].append(seconds(args.device, model.encoder.read, **prompts))
            alone, together = (statistics.median(times[1:]) for times in taken.values())
            ratio = statistics.median(a / b for a, b in list(zip(*taken.values()))[1:])
            cells = (f"{alone:.3f}", f"{together:.3f}", format_ratio(ratio))
            say(table_row([str(length), str(number), *cells]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("prompt", 1024), ("new", 128), ("window", 512), ("rows", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("width", 512), ("layers", 6), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--ratio", type=float, default=12)
    add_device_option(parser)
    add_out_option(parser)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048], help="2nd table")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--flops", action="store_true", help=argparse.SUPPRESS)
    args = parse(parser)
    if args.one:
        print(json.dumps(run_one(args, args.one)))
        return
    say = Lines(args.out)
    compare_ways(args, say)
    compare_batches(args, say)
    say.write()


if __name__ == "__main__":
    main()
