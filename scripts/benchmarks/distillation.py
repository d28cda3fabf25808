"""Memory and time of the distillation loss against a plain implementation.

    python scripts/benchmarks/distillation.py [--tokens 4096 --words 32000] [--device cuda]
        [--dtype float16]

Both start from the decoder features of student and teacher and end with the gradients of the
student's features and output matrix. The plain one keeps the logits of both and computes
log_softmax, KL and label-smoothed cross-entropy on full [tokens, vocabulary] tensors. Each measures
its memory in a process of its own (peak above what inputs and gradients need to begin with); times
come from one process, alternating, as medians.
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from harness import (
    Parser,
    in_own_process,
    median_ratio,
    memory_of,
    report,
    seconds,
    take_turns,
)

from pet_fairseq.distillation.chunks import chunk_size, chunked_sums, free_memory
from pet_fairseq.distillation.loss import TokenSums, distillation_sums, ensemble_log_probs
from pet_fairseq.files import write_json
from pet_fairseq.number_format import format_ratio, format_speed

ALPHA, TEMPERATURE, SMOOTHING = 0.5, 2.0, 0.1
SIZES = {"--tokens": 4096, "--words": 32000, "--width": 512, "--repeats": 5}
TINY = {"--tokens": 64, "--words": 500, "--width": 16, "--repeats": 1}
COLUMNS = {"loss": "", "peak memory MB": ".0f", "time s": ".3f", "tokens/s": format_speed}


def make_inputs(args):
    """Features and output matrices of student and teacher, and the gold words."""
    torch.manual_seed(1)
    options = {"device": args.device, "dtype": getattr(torch, args.dtype)}
    features, teacher_features = (torch.randn(args.tokens, args.width, **options) for _ in "st")
    weight, teacher_weight = (
        torch.randn(args.words, args.width, **options) * args.width**-0.5 for _ in "st"
    )
    target = torch.randint(args.words, (args.tokens,), device=args.device)
    return (
        features.requires_grad_(),
        weight.requires_grad_(),
        teacher_features,
        teacher_weight,
        target,
    )


def plain(features, weight, teacher_features, teacher_weight, target):
    """The loss as the equations are written."""
    logits = (features @ weight.T).float()
    with torch.no_grad():
        teacher_logits = (teacher_features @ teacher_weight.T).float()
    log_probs = F.log_softmax(logits, dim=-1)
    cross_entropy = F.nll_loss(log_probs, target, reduction="sum")
    spread = SMOOTHING / (logits.size(-1) - 1)
    smoothed = (1 - SMOOTHING - spread) * cross_entropy - spread * log_probs.sum()
    kl = F.kl_div(
        F.log_softmax(logits / TEMPERATURE, dim=-1),
        F.softmax(teacher_logits / TEMPERATURE, dim=-1),
        reduction="sum",
    )
    return (1 - ALPHA) * smoothed + ALPHA * TEMPERATURE**2 * kl


def ours(features, weight, teacher_features, teacher_weight, target):
    """The loss as the package computes it."""

    def sums(rows_features, rows):
        with torch.no_grad():
            logits = [teacher_features[rows] @ teacher_weight.T]
            teacher_log_probs = ensemble_log_probs(logits, TEMPERATURE)
        student_logits = rows_features @ weight.T
        return distillation_sums(
            student_logits, teacher_log_probs, target[rows], ALPHA, TEMPERATURE, SMOOTHING
        )

    tokens = chunk_size(len(weight), free_memory(features.device))
    return chunked_sums(sums, features, [weight], tokens, TokenSums).loss


METHODS = {"plain": plain, "ours": ours}


def gradients(method, inputs):
    features, weight = inputs[:2]
    features.grad = weight.grad = None
    METHODS[method](*inputs).backward()
    return features.grad, weight.grad


def peak_bytes(method: str, args) -> int:
    """Peak memory of one forward and backward pass beyond the inputs, in this process."""
    inputs = make_inputs(args)
    small = argparse.Namespace(**{**vars(args), "tokens": 8, "words": 64})
    gradients(method, make_inputs(small))  # loads libraries before the baseline is read
    return memory_of(args.device, gradients, method, inputs)[0]


def gradient_difference(inputs) -> float:
    """The largest difference of a gradient, as a share of the largest one."""
    pairs = zip(gradients("plain", inputs), gradients("ours", inputs))
    return max(((a - b).abs().max() / a.abs().max()).item() for a, b in pairs)


def main():
    parser = Parser(__doc__, SIZES, TINY, ("--dtype", "--device", "--out", "--csv"))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    inputs = make_inputs(args)
    difference = gradient_difference(inputs)
    ways = {name: partial(seconds, args.device, gradients, name, inputs) for name in METHODS}
    times = take_turns(ways, args.repeats)
    memory = {name: in_own_process(peak_bytes, name, args) for name in METHODS}
    figures = {
        "memory_ratio": memory["ours"] / memory["plain"],
        "time_ratio": median_ratio(times["ours"], times["plain"]),
        "gradient_difference": difference,
    }
    size = f"{args.tokens} tokens x {args.words} words, width {args.width}"
    with report(args, f"{size}, {args.dtype}, {args.device}", COLUMNS) as result:
        for name, taken in times.items():
            median = statistics.median(taken)
            result.add_row(name, memory[name] / 1e6, median, args.tokens / median)
        result.say(
            f"\nmemory, ours / plain: {format_ratio(figures['memory_ratio'])} (goal: at most 0.40)"
            f"\ntime, ours / plain: {format_ratio(figures['time_ratio'])} (goal: at most 1.15)"
            f"\nlargest gradient difference: {difference:.1e} of the largest gradient (goal in "
            "float32: at most 1e-5)"
        )
    if args.json:
        files = ("out", "csv", "json")
        options = {name: value for name, value in vars(args).items() if name not in files}
        write_json(args.json, {**options, **figures, "seconds": times, "bytes": memory})


if __name__ == "__main__":
    main()
