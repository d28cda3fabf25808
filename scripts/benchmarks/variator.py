#!/usr/bin/env python3
"""Wall-clock time of an encoder with plugins over the plain encoder, beside the ratio of FLOPs.

Random weights in the shape that the options give, or in that of a checkpoint; ratios in alternating
order, median of paired rounds.

    python scripts/benchmarks/variator.py [--lengths 128 512 --width 512 --device cuda --site ffn]
    python scripts/benchmarks/variator.py --path model.pt --lengths 512 --tokens 4096
"""

import argparse
import statistics
from argparse import Namespace

import torch
from fairseq.models import build_model
from measuring import (
    Lines,
    add_clock_option,
    add_device_option,
    add_out_option,
    chosen_clock,
    parse,
)

import pet_fairseq
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.nn.architectures import Vocabularies
from pet_fairseq.variator.flops import shape_of
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import build_around

pet_fairseq.register()


def make_model(args):
    cfg = VariatorConfig(
        backbone_path=args.path or __file__,  # any file: its hash is not looked at here
        bottleneck_dim=args.bottleneck_dim,
        compression_site=args.site,
    )
    torch.manual_seed(1)
    if args.path:
        model = build_around(load_checkpoint(args.path, "--path"), cfg)
    else:
        model = random_model(args, cfg)
    for ratio in args.ratios:
        model.add_plugins(ratio, cfg)
    return model.to(device=args.device, dtype=getattr(torch, args.dtype)).eval()


def random_model(args, cfg):
    options = {"arch": "transformer", "encoder_layers": args.layers, "decoder_layers": 1}
    for stack in ("encoder", "decoder"):
        options |= {
            f"{stack}_embed_dim": args.width,
            f"{stack}_ffn_embed_dim": args.ffn,
            f"{stack}_attention_heads": args.heads,
        }
    vocabularies = Vocabularies(1000, 1000)
    backbone = build_model(Namespace(**options), vocabularies)
    return VariatorModel(cfg, backbone, vocabularies.source_dictionary.pad())


@torch.inference_mode()
def measure(model, ratios, tokens, repeats, clock):
    """Time ratios to the plain encoder: the median over rounds."""
    rounds = []
    for i in range(repeats + 1):  # the first one warms up
        taken = {}
        for ratio in ratios if i % 2 else ratios[::-1]:
            with model.compression_ratio(ratio):
                taken[ratio] = clock(model.stack, tokens, None)
        rounds.append(taken)
    return {k: statistics.median(r[k] / r[1] for r in rounds[1:]) for k in ratios}, rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--path", help="a checkpoint, in place of the sizes")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--ffn", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--bottleneck-dim", type=int, default=64)
    parser.add_argument("--site", default="ffn")
    parser.add_argument("--ratios", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=4096, help="in a batch")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    add_clock_option(parser)
    add_device_option(parser)
    add_out_option(parser)
    args = parse(parser)
    clock = chosen_clock(args)
    say = Lines(args.out)
    model = make_model(args)
    header = ["length", "k", "ms", "time ratio", "FLOPs ratio", "saved, of the saving in FLOPs %"]
    counted = "of the processor" if args.processor_time else "on the clock"
    say(f"{args.tokens} tokens in a batch, {args.dtype}, {args.device}; time {counted}\n")
    say(table_head(header, text=()))
    for length in args.lengths:
        size = (max(1, args.tokens // length), length)
        # always the same word, the beginning of a sentence: any takes as long
        tokens = torch.zeros(size, dtype=torch.long, device=args.device)
        ratios = [1, *args.ratios]
        times, rounds = measure(model, ratios, tokens, args.repeats, clock)
        plain = VariatorModel.encoder_cost(shape_of(model)._replace(ratio=1), length)
        for k in ratios:
            flops = VariatorModel.encoder_cost(shape_of(model)._replace(ratio=k), length) / plain
            ms = 1000 * statistics.median(r[k] for r in rounds[1:])
            share = "-" if k == 1 else f"{100 * (1 - times[k]) / (1 - flops):.0f}"
            cells = (f"{ms:.1f}", f"{times[k]:.3f}", f"{flops:.3f}", share)
            say(table_row([str(length), str(k), *cells]))
    say.write()


if __name__ == "__main__":
    main()
