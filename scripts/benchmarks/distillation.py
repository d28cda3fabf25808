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
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from measuring import Lines, add_device_option, add_out_option, parse, peak, seconds, start_peak

from pet_fairseq.distillation.chunks import chunk_size, chunked_sums, free_memory
from pet_fairseq.distillation.loss import TokenSums, distillation_sums, ensemble_log_probs
from pet_fairseq.files import write_json
from pet_fairseq.markdown import table_head, table_row
from pet_fairseq.rounding import format_speed

ALPHA, TEMPERATURE, SMOOTHING = 0.5, 2.0, 0.1


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
    """The same through the package."""

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
    """Peak memory of one forward and backward pass beyond the inputs."""
    inputs = make_inputs(args)
    small = argparse.Namespace(**{**vars(args), "tokens": 8, "words": 64})
    gradients(method, make_inputs(small))  # loads libraries before the baseline is read
    before = start_peak(args.device)
    gradients(method, inputs)
    return peak(args.device) - before


def peak_in_own_process(method: str) -> int:
    command = [sys.executable, __file__, *sys.argv[1:], "--memory-of", method]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(output.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    add_device_option(parser)
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--memory-of", choices=METHODS, help=argparse.SUPPRESS)
    add_out_option(parser)
    args = parse(parser)
    if args.memory_of:
        print(peak_bytes(args.memory_of, args))
        return
    say = Lines(args.out)

    inputs = make_inputs(args)
    differences = []
    for a, b in zip(gradients("plain", inputs), gradients("ours", inputs)):
        differences.append(((a - b).abs().max() / a.abs().max()).item())
    times = {name: [] for name in METHODS}
    for _ in range(args.repeats):
        for name in METHODS:
            times[name].append(seconds(args.device, gradients, name, inputs))
    median = {name: statistics.median(values) for name, values in times.items()}
    memory = {name: peak_in_own_process(name) for name in METHODS}

    size = f"{args.tokens} tokens x {args.words} words, width {args.width}"
    say(f"{size}, {args.dtype}, {args.device}")
    say("\n" + table_head(["loss", "peak memory MB", "time s", "tokens/s"]))
    for name in METHODS:
        speed = args.tokens / median[name]
        cells = (f"{memory[name] / 1e6:.0f}", f"{median[name]:.3f}", format_speed(speed))
        say(table_row([name, *cells]))
    figures = {
        "memory_ratio": memory["ours"] / memory["plain"],
        "time_ratio": statistics.median(b / a for a, b in zip(times["plain"], times["ours"])),
        "gradient_difference": max(differences),
    }
    say(f"\nmemory, ours / plain: {figures['memory_ratio']:.3f} (goal: at most 0.40)")
    say(f"time, ours / plain: {figures['time_ratio']:.3f} (goal: at most 1.15)")
    say(
        f"largest gradient difference: {figures['gradient_difference']:.1e} of the largest "
        "gradient (goal in float32: at most 1e-5)"
    )
    if args.json:
        options = {name: value for name, value in vars(args).items() if name != "out"}
        write_json(Path(args.json), {**options, **figures, "seconds": times, "bytes": memory})
    say.write()


if __name__ == "__main__":
    main()
