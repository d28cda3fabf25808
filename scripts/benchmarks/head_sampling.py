#!/usr/bin/env python3
"""Generation speed of a model whose heads were sampled, over one built with that number of heads.

Random models of the same widths: one with 2 H heads of which every layer keeps other H, one with H
from the start, and the wide one. The same sentences, forced to one length; alternating order,
median of the rounds.

    python scripts/benchmarks/head_sampling.py [--device cuda]
"""

import argparse
import random
import statistics
from argparse import Namespace

import torch
from fairseq.models import build_model
from fairseq.sequence_generator import SequenceGenerator
from measuring import Lines, add_device_option, add_out_option, parse, seconds

import pet_fairseq
from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.nn.architectures import Vocabularies
from pet_fairseq.nn.parameters import count_parameters
from pet_fairseq.pet.heads import format_heads
from pet_fairseq.rounding import format_ratio, format_speed

pet_fairseq.register()


def make_model(heads, head_dim, args, **kept):
    options = {"arch": "pet_transformer", "share_decoder_input_output_embed": True, **kept}
    for stack in ("encoder", "decoder"):
        options |= {
            f"{stack}_embed_dim": args.width,
            f"{stack}_ffn_embed_dim": 2 * args.width,
            f"{stack}_layers": args.layers,
            f"{stack}_attention_heads": heads,
            f"{stack}_head_dim": head_dim,
        }
    torch.manual_seed(1)
    model = build_model(Namespace(**options), Vocabularies(args.words, args.words))
    return model.to(args.device).eval()


def random_heads(wide, heads, layers):
    """Each layer keeps heads of its own, as after sampling."""
    draw = random.Random(1)
    return format_heads([draw.sample(range(wide), heads) for _ in range(layers)])


def generator(model, args):
    model.make_generation_fast_()
    dictionary = Vocabularies(args.words, args.words).target_dictionary
    length = {"max_len_a": 0, "max_len_b": args.length, "min_len": args.length}
    return SequenceGenerator([model], dictionary, beam_size=args.beam, **length)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--words", type=int, default=5000)
    parser.add_argument("--sentences", type=int, default=64, help="in a batch")
    parser.add_argument("--length", type=int, default=15)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=9)
    add_device_option(parser)
    add_out_option(parser)
    args = parse(parser)
    say = Lines(args.out)

    head_dim, wide = args.width // args.heads, 2 * args.heads
    options = ("encoder_kept_heads", "decoder_kept_heads", "decoder_kept_cross_heads")
    kept = {name: random_heads(wide, args.heads, args.layers) for name in options}
    models = {
        "built with H heads": make_model(args.heads, head_dim, args),
        "sampled to H heads": make_model(wide, head_dim, args, **kept),
        "wide, 2 H heads": make_model(wide, head_dim, args),
    }
    counts = {name: count_parameters(model) for name, model in models.items()}
    generators = {name: generator(model, args) for name, model in models.items()}
    tokens = torch.randint(4, args.words, (args.sentences, args.length), device=args.device)
    lengths = torch.full((args.sentences,), args.length, device=args.device)
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
    times = {name: [] for name in models}
    for i in range(args.repeats + 1):  # the first round warms up
        names = list(models) if i % 2 else list(models)[::-1]
        for name in names:
            taken = seconds(args.device, generators[name].generate, [], sample)
            if i:
                times[name].append(taken)
    base = times["built with H heads"]
    header = ["model", "layer parameters stored", "active", "sentences/s", "time ratio"]
    say(table_head(header))
    for name, rounds in times.items():
        ratio = statistics.median(a / b for a, b in zip(rounds, base))
        speed = args.sentences / statistics.median(rounds)
        stored, active = counts[name].layers, counts[name].unshared_layers
        say(
            table_row(
                [name, f"{stored:,}", f"{active:,}", format_speed(speed), format_ratio(ratio)]
            )
        )
    say.write()


if __name__ == "__main__":
    main()
