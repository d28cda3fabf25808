#!/usr/bin/env python3
"""Generation speed of a model whose heads were sampled, over one built with that number of heads.

Random models of the same widths: one with 2 H heads of which every layer keeps other H, one with H
from the start, and the wide one. The same sentences, forced to one length; alternating order,
median of the rounds.

    python scripts/benchmarks/head_sampling.py [--device cuda]
"""

import random
import statistics
from argparse import Namespace
from functools import partial

import torch
from fairseq.models import build_model
from fairseq.sequence_generator import SequenceGenerator
from harness import Parser, median_ratio, report, seconds, take_turns

import pet_fairseq
from pet_fairseq.nn.architectures import Vocabularies
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.number_format import format_ratio, format_speed
from pet_fairseq.pet.heads import format_heads

pet_fairseq.register()

SIZES = {
    **{"--width": 256, "--layers": 4, "--heads": 4, "--words": 5000},
    **{"--sentences": 64, "--length": 15, "--beam": 5, "--repeats": 9},
}
TINY = {
    **{"--width": 16, "--layers": 2, "--heads": 2, "--words": 30},
    **{"--sentences": 2, "--length": 3, "--beam": 2, "--repeats": 1},
}
COLUMNS = {
    "model": "",
    "layer parameters stored": ",d",
    "active": ",d",
    "sentences/s": format_speed,
    "time ratio": format_ratio,
}


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


def random_sample(args):
    """A batch of sentences of random words, all of one length."""
    tokens = torch.randint(4, args.words, (args.sentences, args.length), device=args.device)
    lengths = torch.full((args.sentences,), args.length, device=args.device)
    return {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}


def main():
    args = Parser(__doc__, SIZES, TINY).parse_args()
    head_dim, wide = args.width // args.heads, 2 * args.heads
    options = ("encoder_kept_heads", "decoder_kept_heads", "decoder_kept_cross_heads")
    kept = {name: random_heads(wide, args.heads, args.layers) for name in options}
    models = {
        "built with H heads": make_model(args.heads, head_dim, args),
        "sampled to H heads": make_model(wide, head_dim, args, **kept),
        "wide, 2 H heads": make_model(wide, head_dim, args),
    }
    counts = {name: count_parameters(model) for name, model in models.items()}
    sample = random_sample(args)
    ways = {
        name: partial(seconds, args.device, generator(model, args).generate, [], sample)
        for name, model in models.items()
    }
    times = take_turns(ways, args.repeats)
    base = times["built with H heads"]
    batches = f"batches of {args.sentences} sentences of {args.length} words, beam {args.beam}"
    with report(args, f"{batches}, {args.device}", COLUMNS) as result:
        for name, taken in times.items():
            count, speed = counts[name], args.sentences / statistics.median(taken)
            ratio = median_ratio(taken, base)
            result.add_row(name, count.layers, count.unshared_layers, speed, ratio)


if __name__ == "__main__":
    main()
