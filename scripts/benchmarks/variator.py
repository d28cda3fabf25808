#!/usr/bin/env python3
"""Wall-clock time of an encoder with plugins over the plain encoder, beside the ratio of FLOPs.

Random weights in the shape that the options give, or in that of a checkpoint; ratios in alternating
order, median of paired rounds.

    python scripts/benchmarks/variator.py [--lengths 128 512 --width 512 --device cuda --site ffn]
    python scripts/benchmarks/variator.py --path model.pt --lengths 512 --tokens 4096
"""

import statistics
from argparse import Namespace
from functools import partial

import torch
from fairseq.models import build_model
from harness import Parser, chosen_clock, median_ratio, report, take_turns

import pet_fairseq
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.nn.architectures import Vocabularies
from pet_fairseq.number_format import format_ratio
from pet_fairseq.variator.flops_table import shape_of
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.plugin_files import build_around

pet_fairseq.register()

SIZES = {
    **{"--width": 512, "--ffn": 2048, "--heads": 8, "--layers": 6, "--bottleneck-dim": 64},
    **{"--ratios": [2, 4, 8, 16, 32], "--lengths": [128, 512], "--tokens": 4096, "--repeats": 7},
}
TINY = {
    **{"--width": 32, "--ffn": 64, "--heads": 2, "--layers": 1, "--bottleneck-dim": 4},
    **{"--ratios": [2], "--lengths": [8, 16], "--tokens": 32, "--repeats": 1},
}
COLUMNS = {
    "length": "d",
    "k": "d",
    "ms": ".1f",
    "time ratio": format_ratio,
    "FLOPs ratio": ".3f",
    "saved, of the saving in FLOPs %": ".0f",
}


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
    """The seconds of the encoder by ratio and round."""

    def run(ratio):
        with model.compression_ratio(ratio):
            return clock(model.stack, tokens, None)

    return take_turns({ratio: partial(run, ratio) for ratio in ratios}, repeats)


def flops_ratios(model, ratios, length):
    """What of the plain encoder's multiply-adds is left at each ratio."""
    shape = shape_of(model)
    costs = {k: VariatorModel.encoder_cost(shape._replace(ratio=k), length) for k in ratios}
    return {k: cost / costs[1] for k, cost in costs.items()}


def main():
    shared = ("--dtype", "--processor-time", "--device", "--out", "--csv")
    parser = Parser(__doc__, SIZES, TINY, shared)
    parser.add_argument("--path", help="a checkpoint, in place of the sizes")
    parser.add_argument("--site", default="ffn")
    args = parser.parse_args()
    model, ratios = make_model(args), [1, *args.ratios]
    counted = "of the processor" if args.processor_time else "on the clock"
    about = f"{args.tokens} tokens in a batch, {args.dtype}, {args.device}; time {counted}"
    with report(args, about, COLUMNS) as result:
        for length in args.lengths:
            size = (max(1, args.tokens // length), length)
            # always the same word, the beginning of a sentence: any takes as long
            tokens = torch.zeros(size, dtype=torch.long, device=args.device)
            times = measure(model, ratios, tokens, args.repeats, chosen_clock(args))
            flops = flops_ratios(model, ratios, length)
            for k, taken in times.items():
                ratio = median_ratio(taken, times[1])
                saved = None if k == 1 else 100 * (1 - ratio) / (1 - flops[k])
                result.add_row(length, k, 1000 * statistics.median(taken), ratio, flops[k], saved)


if __name__ == "__main__":
    main()
