#!/usr/bin/env python3
"""Time of attention in steps over that of torch's fused kernel, without and with a backward pass.

Random queries, keys and values without padding; the two take turns; median of the rounds. What
`attention.steps_are_faster` says rests on this table.

    python scripts/benchmarks/attention.py [--lengths 16 128 --dtypes bfloat16 --processor-time]
"""

import argparse
import statistics

import torch
from measuring import (
    Lines,
    add_clock_option,
    add_device_option,
    add_out_option,
    chosen_clock,
    parse,
)

from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.nn.attention import attention_in_steps, fused_attention, head_multiple


def forward(attend, inputs) -> torch.Tensor:
    """B x H x T x D from T x B x H x D, which is how a layer lies in memory."""
    return attend(*(x.permute(1, 2, 0, 3) for x in inputs))


def forward_and_backward(attend, inputs) -> None:
    context = forward(attend, inputs)
    torch.autograd.grad(context, inputs, torch.ones_like(context))


def measure(inputs, repeats, clock):
    """Medians in seconds: of each way forward alone, without gradients, and in training."""
    multiple = head_multiple(inputs[0])
    ways = {
        "fused": lambda q, k, v: fused_attention(q, k, v, None, 0.0, multiple),
        "steps": lambda q, k, v: attention_in_steps(q, k, v, None, 0.0),
    }
    taken = {(way, work): [] for work in (forward, forward_and_backward) for way in ways}
    for i in range(repeats + 1):  # the first round warms up
        for way, work in taken if i % 2 else reversed(taken):
            with torch.set_grad_enabled(work is forward_and_backward):
                time = clock(work, ways[way], inputs)
            if i:
                taken[way, work].append(time)
    return {key: statistics.median(times) for key, times in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-dim", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=1024, help="in a batch")
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512])
    dtypes = ("bfloat16", "float16", "float32")
    parser.add_argument("--dtypes", nargs="+", choices=dtypes, default=["bfloat16", "float32"])
    parser.add_argument("--repeats", type=int, default=9)
    add_clock_option(parser)
    add_device_option(parser)
    add_out_option(parser)
    args = parse(parser)
    clock = chosen_clock(args)
    say = Lines(args.out)
    say(f"{args.tokens} tokens, {args.heads} heads of width {args.head_dim}, {args.device}; ms\n")
    header = ["precision", "length", "fused", "steps", "fused, training", "steps, training"]
    say(table_head(header))
    for dtype in args.dtypes:
        for length in args.lengths:
            size = (length, max(1, args.tokens // length), args.heads, args.head_dim)
            options = dict(dtype=getattr(torch, dtype), device=args.device, requires_grad=True)
            inputs = [torch.randn(size, **options) for _ in range(3)]
            times = measure(inputs, args.repeats, clock)
            say(table_row([dtype, str(length), *(f"{1000 * t:.1f}" for t in times.values())]))
    say.write()


if __name__ == "__main__":
    main()
