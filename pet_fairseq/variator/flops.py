"""What plugins cost and save: parameters, and multiply-adds by formula and as measured."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.markdown import table
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.move import build_around
from pet_fairseq.variator.options import VariatorConfig, check_options


class Shape(NamedTuple):
    """A stack and its plugins: layers, d, FFN width, k, r; the others as in `VariatorConfig`."""

    layers: int
    embed_dim: int
    ffn_embed_dim: int
    ratio: int
    bottleneck_dim: int
    site: str = "ffn"
    compression: str = "weighted"
    decompression: str = "adapter"


def plugin_parameters(shape: Shape) -> int:
    """Of one site: k^2 d + k + 3 r d + r + d (Variator, section 3.4).

    Keys and values alone need no adapter: k^2 d + k.
    """
    d, k, r = shape.embed_dim, shape.ratio, shape.bottleneck_dim
    scores = k * k * d + k if shape.compression == "weighted" else 0
    return scores + (3 * r * d + r + d if has_adapter(shape) else 0)


def has_adapter(shape: Shape) -> bool:
    return shape.decompression == "adapter" and shape.site != "attention-kv"


def ffn_parameters(shape: Shape) -> int:
    """Of one feed-forward network."""
    d, f = shape.embed_dim, shape.ffn_embed_dim
    return 2 * d * f + d + f


def paper_plugin_cost(shape: Shape) -> int:
    """Operations per position at an FFN: (k d + 2 d + 3) + (3 r d + 2 d + r) (section 3.4)."""
    d, k, r = shape.embed_dim, shape.ratio, shape.bottleneck_dim
    return (k * d + 2 * d + 3) + (3 * r * d + 2 * d + r)


def paper_ffn_saving(shape: Shape) -> float:
    """Share of an FFN's cost that its plugin saves, by the paper's formula."""
    ffn = 2 * shape.embed_dim * shape.ffn_embed_dim
    return 1 - 1 / shape.ratio - paper_plugin_cost(shape) / ffn


def encoder_cost(shape: Shape, length: int) -> int:
    """Multiply-adds of the matrix products of the encoder's layers for one sentence.

    Ratio 1 means without plugins. The half of the adapter's first map that reads the group's output
    is computed once per group here, so this is less than the paper's formula.
    """
    return shape.layers * layer_cost(shape, length)


def layer_cost(shape: Shape, length: int) -> int:
    d, f, k, r = shape[1:5]
    t, g = length, -(-length // k)
    filled = g * k  # the last group is filled up with zeros
    if k == 1:
        return 4 * t * d * d + 2 * t * t * d + 2 * t * d * f
    scores = filled * k * d if shape.compression == "weighted" else 0
    adapter = 2 * filled * r * d + g * r * d if has_adapter(shape) else 0
    if shape.site == "ffn":
        return 4 * t * d * d + 2 * t * t * d + 2 * g * d * f + scores + adapter
    if shape.site == "attention":
        return 4 * g * d * d + 2 * g * g * d + 2 * t * d * f + scores + adapter
    return 2 * t * d * d + 2 * g * d * d + 2 * t * g * d + 2 * t * d * f + scores


def token_pruning_cost(shape: Shape, length: int) -> int:
    """The same for --arch token_pruning: one of k tokens goes through each FFN."""
    d, f, t = shape.embed_dim, shape.ffn_embed_dim, length
    return shape.layers * (4 * t * d * d + 2 * t * t * d + 2 * -(-t // shape.ratio) * d * f)


def narrow_cost(shape: Shape, length: int) -> int:
    """The same for --arch narrow_ffn: each FFN keeps one of k inner units."""
    narrow = shape._replace(ffn_embed_dim=-(-shape.ffn_embed_dim // shape.ratio), ratio=1)
    return encoder_cost(narrow, length)


def shape_of(model: VariatorModel) -> Shape:
    """The sizes of a model and of its plugins for the ratio in use."""
    layers = model.stack.layers
    first = layers[0].fc1
    linear: nn.Linear = getattr(first, "inner", first)
    return Shape(
        len(layers),
        model.width,
        linear.out_features,
        model.switch.ratio,
        model.cfg.bottleneck_dim,
        str(model.cfg.compression_site),
        str(model.cfg.compression),
        str(model.cfg.decompression),
    )


@torch.no_grad()
def measured_cost(model: VariatorModel, length: int) -> int:
    """Multiply-adds of the layers for one sentence, counted by torch while they run."""
    x = torch.randn(length, 1, model.width, device=next(model.parameters()).device)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        for layer in model.stack.layers:
            output = layer(x, None)
            x = output[0] if isinstance(output, tuple) else output  # a decoder's gives more
    return counter.get_total_flops() // 2


def describe(shape: Shape, lengths: list[int], measured: dict[int, tuple[int, int]]) -> str:
    """A table of costs over lengths; measured: with plugins and without, by length."""
    added, ffn = plugin_parameters(shape), ffn_parameters(shape)
    lines = [
        f"{shape.layers} layers, d {shape.embed_dim}, FFN {shape.ffn_embed_dim}; "
        f"k {shape.ratio}, r {shape.bottleneck_dim}, site {shape.site}",
        f"parameters added: {shape.layers * added:,} ({added:,} a layer, {100 * added / ffn:.2f}% "
        "of its FFN)",
        f"FFN saved by the paper's formula: {100 * paper_ffn_saving(shape):.1f}%",
        "",
    ]
    header = [
        "length",
        "without, million multiply-adds",
        "with, formula",
        "with, measured",
        "ratio",
    ]
    rows = []
    for length in lengths:
        formula = encoder_cost(shape, length)
        without = encoder_cost(shape._replace(ratio=1), length)
        with_plugins, plain = measured[length]
        cells = [str(length), f"{without / 1e6:,.2f} ({plain / 1e6:,.2f} measured)"]
        cells += [f"{formula / 1e6:,.2f}", f"{with_plugins / 1e6:,.2f}", f"{formula / without:.3f}"]
        rows.append(cells)
    return "\n".join(lines) + "\n" + table(header, rows, text=()).rstrip()


def flops_report(
    checkpoint: str, ratio: int, bottleneck_dim: int, site: str, lengths: list[int]
) -> str:
    """What plugins of this form would cost and save for the model in a checkpoint.

    Raises:
        UserError: an unusable checkpoint, or values that make no plugin.
    """
    if not lengths or min(lengths) < 1:
        raise UserError(f"--lengths {lengths}: give lengths of 1 or more")
    cfg = VariatorConfig(
        backbone_path=checkpoint,
        compression_ratio=ratio,
        bottleneck_dim=bottleneck_dim,
        compression_site=site,
    )
    check_options(cfg)
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    model = build_around(state, cfg)
    model.add_plugins(ratio, cfg)
    model.eval()
    measured = {}
    for length in lengths:
        with model.compression_ratio(ratio):
            with_plugins = measured_cost(model, length)
        measured[length] = (with_plugins, measured_cost(model, length))
    model.set_compression_ratio(ratio)
    return describe(shape_of(model), lengths, measured)
