#!/usr/bin/env python3
"""What memory tokens cost and save: long prompts cut, compressed or read in full (SelfCP, Table 7).

    python scripts/benchmarks/selfcp.py [--prompt 1024 --new 128 --width 512 --layers 6]
        [--device cuda]

A language model with random weights generates --new tokens after each prompt. Every way runs in a
process of its own, in turn with the others, for its peak memory; times are medians over repeats.
A second table compresses the segments of a prompt in one batch and one after another.
"""

import statistics
from argparse import Namespace
from functools import partial
from itertools import product

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.sequence_generator import SequenceGenerator
from harness import (
    Parser,
    in_own_process,
    median_ratio,
    memory_of,
    report,
    seconds,
    take_turns,
)

from pet_fairseq.nn.multiply_adds import multiply_adds_of
from pet_fairseq.number_format import format_ratio
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig

WAYS = {"truncated": "truncate", "compressed": "former", "full": "full"}
WORDS = 1000
SIZES = {
    **{"--prompt": 1024, "--new": 128, "--window": 512, "--rows": 4, "--width": 512},
    **{"--layers": 6, "--repeats": 5, "--ratio": 12.0, "--lengths": [512, 2048]},
}
TINY_MODEL = {"--width": 64, "--layers": 1, "--rows": 1, "--new": 4, "--repeats": 1}
TINY = {"--prompt": 64, "--window": 16, "--lengths": [64], **TINY_MODEL}
COLUMNS = {
    "way": "",
    "read s": ".2f",
    "all s": ".2f",
    "time to full": format_ratio,
    "multiply-adds, 10^9": ".1f",
    "multiply-adds to full": ".2f",
    "peak memory MB": ".0f",
}
BATCHES = {
    "tokens to compress": "d",
    "segments": "d",
    "one by one s": ".3f",
    "one batch s": ".3f",
    "times as fast": format_ratio,
}


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
    """A greedy generator of a fixed number of new tokens."""
    return SequenceGenerator(
        [model], dictionary, beam_size=1, max_len_a=0, max_len_b=args.new, min_len=args.new
    )


@torch.inference_mode()
def run_one(args, way):
    """Measures one way once, in this process: seconds to read and in all, bytes."""
    model, dictionary = make_model(args, WAYS[way])
    sample = {"net_input": make_prompts(args, args.prompt, args.rows, dictionary)}
    generator = make_generator(args, model, dictionary)
    model.encoder.read(**make_prompts(args, 16, 1, dictionary))  # the first call is slow

    def run():
        read = seconds(args.device, model.encoder, **sample["net_input"])
        return read, seconds(args.device, generator.generate, [model], sample)

    memory, times = memory_of(args.device, run)
    return *times, memory


@torch.inference_mode()
def multiply_adds(args, way):
    """How many one way needs."""
    model, dictionary = make_model(args, WAYS[way])
    sample = {"net_input": make_prompts(args, args.prompt, args.rows, dictionary)}
    generator = make_generator(args, model, dictionary)
    return multiply_adds_of(lambda: generator.generate([model], sample))


def compare_ways(args, result):
    """Adds a row for each way, each measured in processes of its own."""
    ways = {way: partial(in_own_process, run_one, args, way) for way in WAYS}
    runs = take_turns(ways, args.repeats, warm_up=0)
    costs = {way: multiply_adds(args, way) for way in WAYS}
    columns = {way: list(zip(*measured)) for way, measured in runs.items()}
    for way, (read, total, memory) in columns.items():
        ratio = median_ratio(total, columns["full"][1])
        medians = map(statistics.median, (read, total))
        arithmetic = (costs[way] / 1e9, costs[way] / costs["full"])
        result.add_row(way, *medians, ratio, *arithmetic, statistics.median(memory) / 1e6)


@torch.inference_mode()
def compare_batches(args, result):
    """Adds a row for each length and number of segments, in one batch and one after another."""
    model, dictionary = make_model(args, "concat")

    def read(prompts, max_tokens):
        model.cfg.max_compressor_tokens = max_tokens
        return seconds(args.device, model.encoder.read, **prompts)

    for length, number in product(args.lengths, (2, 4, 8, 16)):
        model.cfg.window = length // number
        prompts = make_prompts(args, length + model.cfg.window, 1, dictionary)
        ways = {name: partial(read, prompts, name) for name in (1, 10**9)}
        alone, together = take_turns(ways, args.repeats).values()
        medians = (statistics.median(alone), statistics.median(together))
        result.add_row(length, number, *medians, median_ratio(alone, together))


def main():
    args = Parser(__doc__, SIZES, TINY).parse_args()
    about = (
        f"{args.rows} prompts of {args.prompt} tokens, {args.new} new ones, window {args.window}, "
        f"ratio {args.ratio:g}; {args.layers} layers of width {args.width}, {args.device}"
    )
    with report(args, about, COLUMNS) as result:
        compare_ways(args, result)
        result.begin_table(BATCHES)
        compare_batches(args, result)


if __name__ == "__main__":
    main()
