#!/usr/bin/env python3
"""Time of attention in steps over that of torch's fused kernel, without and with a backward pass.

Random queries, keys and values without padding; the two take turns; median of the rounds. What
`attention.steps_are_faster` says rests on this table.

    python scripts/benchmarks/attention.py [--lengths 16 128 --dtypes bfloat16 --processor-time]
"""

import statistics
from functools import partial
from itertools import product

import torch
from harness import DTYPES, Parser, chosen_clock, report, take_turns

from pet_fairseq.nn.attention import attention_in_steps, fused_attention, head_multiple

SIZES = {
    **{"--tokens": 1024, "--heads": 12, "--head-dim": 32, "--repeats": 9},
    "--lengths": [16, 32, 64, 128, 256, 512],
}
TINY = {"--tokens": 12, "--heads": 2, "--head-dim": 4, "--repeats": 1, "--lengths": [3, 20]}
COLUMNS = {
    "precision": "",
    "length": "d",
    **dict.fromkeys(("fused", "steps", "fused, training", "steps, training"), ".1f"),
}


def forward(attend, inputs) -> torch.Tensor:
    """B x H x T x D from T x B x H x D, which is how a layer lies in memory."""
    with torch.no_grad():
        return attend(*(x.permute(1, 2, 0, 3) for x in inputs))


def forward_and_backward(attend, inputs) -> None:
    context = attend(*(x.permute(1, 2, 0, 3) for x in inputs))
    torch.autograd.grad(context, inputs, torch.ones_like(context))


def measure(inputs, repeats, clock):
    """Medians in ms: of each way forward alone, without gradients, and in training."""
    multiple = head_multiple(inputs[0])
    attentions = {
        "fused": lambda q, k, v: fused_attention(q, k, v, None, 0.0, multiple),
        "steps": lambda q, k, v: attention_in_steps(q, k, v, None, 0.0),
    }
    ways = {
        (name, work): partial(clock, work, attend, inputs)
        for work in (forward, forward_and_backward)
        for name, attend in attentions.items()
    }
    return [1000 * statistics.median(times) for times in take_turns(ways, repeats).values()]


def main():
    shared = ("--processor-time", "--device", "--out", "--csv")
    parser = Parser(__doc__, SIZES, TINY, shared)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["bfloat16", "float32"])
    args = parser.parse_args()
    shape = f"{args.tokens} tokens in a batch, {args.heads} heads of width {args.head_dim}"
    with report(args, f"{shape}, {args.device}; ms", COLUMNS) as result:
        for dtype, length in product(args.dtypes, args.lengths):
            size = (length, max(1, args.tokens // length), args.heads, args.head_dim)
            options = dict(dtype=getattr(torch, dtype), device=args.device, requires_grad=True)
            inputs = [torch.randn(size, **options) for _ in range(3)]
            result.add_row(dtype, length, *measure(inputs, args.repeats, chosen_clock(args)))


if __name__ == "__main__":
    main()
