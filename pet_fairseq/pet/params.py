"""`pet-fairseq params`: counts for checkpoints and options, and widths that reach a wanted rate."""

import io
import math
import re
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import NamedTuple

from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import nn

from pet_fairseq.checkpoints.dictionaries import vocabulary_sizes
from pet_fairseq.checkpoints.known_models import check_architecture
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError, did_you_mean
from pet_fairseq.nn.architectures import build_without_memory, is_encoder_decoder
from pet_fairseq.nn.parameter_counts import (
    ParameterCounts,
    compression_rate,
    count_parameters,
)

DECODER_OVER_ENCODER = (1.0, 0.75, 0.5)
FFN_OVER_WIDTH = (1, 2, 4)


class Widths(NamedTuple):
    """Widths that make a model of `counts` at `rate` percent."""

    encoder: int
    encoder_ffn: int
    decoder: int
    decoder_ffn: int
    counts: ParameterCounts
    rate: float


def parse_model_options(arguments: list[str]) -> Namespace:
    """The options as fairseq-train reads them.

    Raises:
        UserError: no --arch, not an encoder-decoder Transformer, or an unknown option.
    """
    if not any(word in ("--arch", "-a") or word.startswith("--arch=") for word in arguments):
        raise UserError("give a CHECKPOINT, or model options that start with --arch NAME")
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            args = options.parse_args_and_arch(options.get_training_parser(), ["data", *arguments])
    except SystemExit as end:  # fairseq's parser prints the error below a screen of options
        line = printed.getvalue().strip().rpartition("error: ")[2].partition(" (choose from")[0]
        arch = re.search("--arch.*: invalid choice: '(.*)'", line)
        line += did_you_mean(arch[1], ARCH_MODEL_REGISTRY) if arch else ""
        raise UserError(line) from end
    if not is_encoder_decoder(args.arch):
        raise UserError(f"--arch {args.arch}: not an encoder-decoder Transformer")
    return args


def build(options: Namespace, given: str, source_size: int = 4, target_size: int = 4) -> nn.Module:
    """`build_without_memory` for options that may not fit together.

    Args:
        given: the option or file that stands for the model, for errors.
    Raises:
        UserError: no model can be built, for the reason that fairseq or torch gives.
    """
    try:
        return build_without_memory(options, source_size, target_size)
    except UserError:
        raise
    except (ValueError, AssertionError, ZeroDivisionError, RuntimeError) as error:
        reason = str(error) or type(error).__name__
        raise UserError(
            f"{given}: the model cannot be built to count it ({reason}); give other options or "
            "another model"
        ) from error


def option_model(arguments: list[str]) -> nn.Module:
    """The model of these options, shapes only, with embeddings of the 4 special words only.

    Raises:
        UserError: as `parse_model_options` and `build`.
    """
    args = parse_model_options(arguments)
    return build(args, f"--arch {args.arch}")


def checkpoint_model(path: str, option: str) -> nn.Module:
    """The model in a checkpoint, shapes only.

    Raises:
        UserError: unreadable file, or not an encoder-decoder Transformer.
    """
    return stored_model(load_checkpoint(path, option, mapped=True), path, option)


def stored_model(state: dict, path: str, option: str) -> nn.Module:
    """The model of a loaded checkpoint, shapes only.

    Raises:
        UserError: not an encoder-decoder Transformer, another plugin's, or one that cannot be built
            so.
    """
    check_architecture(state["cfg"], path, option)
    sizes = vocabulary_sizes(state["model"])
    source, target = sizes.values()
    if source is None or target is None:
        raise UserError(f"{option} {path}: not an encoder-decoder Transformer")
    return build(state["cfg"].model, f"{option} {path}", source, target)


def reference_model(reference: str) -> nn.Module:
    """A named architecture or the model in a checkpoint, shapes only.

    Raises:
        UserError: neither of them, or a model that cannot be built so.
    """
    if is_encoder_decoder(reference):
        return build(Namespace(arch=reference), f"--reference {reference}")
    return checkpoint_model(reference, "--reference")


def find_widths(
    arguments: list[str], target_rate: float, reference: ParameterCounts
) -> list[Widths]:
    """Widths for these options that come nearest to a rate, the nearest first.

    One setting for each ratio of decoder to encoder width and of FFN to width; widths are
    multiples of 8 and of the number of heads. Stacks that share their embeddings are equally wide.

    Raises:
        UserError: the rate is not a number above 0, or as `parse_model_options` and `build`.
    """
    if not 0 < target_rate < math.inf:
        raise UserError(f"--rate {target_rate}: give a percentage above 0")
    args = parse_model_options(arguments)
    nearest = {}  # by widths: two ratios may come to the same ones
    for decoder_ratio in (1.0,) if args.share_all_embeddings else DECODER_OVER_ENCODER:
        for ffn_ratio in FFN_OVER_WIDTH:

            def widths(i: int, decoder_ratio=decoder_ratio, ffn_ratio=ffn_ratio) -> Widths:
                return _widths(args, i, decoder_ratio, ffn_ratio, reference)

            best = _nearest(widths, target_rate)
            nearest[best[:4]] = best
    return sorted(nearest.values(), key=lambda w: abs(w.rate - target_rate))


def _widths(
    args, i: int, decoder_ratio: float, ffn_ratio: int, reference: ParameterCounts
) -> Widths:
    """The i-th encoder width, i >= 1, and what follows from it."""
    step = math.lcm(8, args.decoder_attention_heads)
    equal = step if args.share_all_embeddings else 1
    encoder = i * math.lcm(8, args.encoder_attention_heads, equal)
    decoder = max(1, round(encoder * decoder_ratio / step)) * step
    changed = Namespace(**vars(args))
    changed.encoder_embed_dim, changed.encoder_ffn_embed_dim = encoder, ffn_ratio * encoder
    changed.decoder_embed_dim, changed.decoder_ffn_embed_dim = decoder, ffn_ratio * decoder
    changed.decoder_input_dim = changed.decoder_output_dim = decoder
    counts = count_parameters(build(changed, f"--arch {args.arch}"))
    rate = compression_rate(counts, reference)
    return Widths(encoder, ffn_ratio * encoder, decoder, ffn_ratio * decoder, counts, rate)


def _nearest(widths: Callable[[int], Widths], target_rate: float) -> Widths:
    """The widths whose rate, which grows with their number i, comes nearest to the target."""
    low, high = 1, 2
    while widths(high).rate < target_rate:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if widths(middle).rate < target_rate:
            low = middle
        else:
            high = middle
    return min(widths(low), widths(high), key=lambda w: abs(w.rate - target_rate))


def format_counts(counts: ParameterCounts, name: str, reference: ParameterCounts) -> str:
    """The counts and the rate as a few lines for the terminal."""
    rate = compression_rate(counts, reference)
    return "\n".join(
        [
            f"layer parameters, stored      {counts.layers:>13,}",
            f"layer parameters, if unshared {counts.unshared_layers:>13,}",
            f"all parameters, stored        {counts.total:>13,}",
            f"layer parameters of reference {reference.layers:>13,}  ({name})",
            f"compression rate              {rate:>12.2f}%",
        ]
    )


def format_widths(settings: list[Widths]) -> str:
    """The settings as a table for the terminal; each line ends in options to copy."""
    lines = [f"{'rate %':>7} {'layer params':>13}  options"]
    for w in settings:
        lines.append(
            f"{w.rate:7.2f} {w.counts.layers:13,}  --encoder-embed-dim {w.encoder} "
            f"--encoder-ffn-embed-dim {w.encoder_ffn} --decoder-embed-dim {w.decoder} "
            f"--decoder-ffn-embed-dim {w.decoder_ffn}"
        )
    return "\n".join(lines)
