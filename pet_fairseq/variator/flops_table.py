"""What plugins would cost a model and save: by formula, and counted by torch."""

import torch

from pet_fairseq.checkpoints.backbone import read_backbone
from pet_fairseq.errors import UserError
from pet_fairseq.markdown import table
from pet_fairseq.nn.multiply_adds import multiply_adds_of
from pet_fairseq.variator.costs import Shape, ffn_parameters, paper_ffn_saving
from pet_fairseq.variator.model import VariatorModel
from pet_fairseq.variator.options import VariatorConfig, check_new_plugins
from pet_fairseq.variator.plugin_files import build_around
from pet_fairseq.variator.sites import SITES


def shape_of(model: VariatorModel) -> Shape:
    """The shape of a model's stack and of its plugins for the ratio in use."""
    return Shape(
        layers=len(model.stack.layers),
        ratio=model.grouping.ratio,
        bottleneck_dim=model.cfg.bottleneck_dim,
        site=str(model.cfg.compression_site),
        compression=str(model.cfg.compression),
        decompression=str(model.cfg.decompression),
        **model.widths,
    )


@torch.no_grad()
def measured_cost(model: VariatorModel, length: int) -> int:
    """Multiply-adds of the layers for one sentence, counted by torch while they run."""
    x = torch.randn(length, 1, model.widths["embed_dim"], device=next(model.parameters()).device)

    def run() -> None:
        nonlocal x
        for layer in model.stack.layers:
            output = layer(x, None)
            x = output[0] if isinstance(output, tuple) else output  # decoder layers give a tuple

    return multiply_adds_of(run)


def cost_table(shape: Shape, lengths: list[int], measured: dict[int, tuple[int, int]]) -> str:
    """Format a table of costs by length.

    Args:
        shape: with the plugins. measured: multiply-adds with plugins and without, by length.
    """
    added, ffn = SITES[shape.site].plugin_parameters(shape), ffn_parameters(shape)
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
        formula = VariatorModel.encoder_cost(shape, length)
        without = VariatorModel.encoder_cost(shape._replace(ratio=1), length)
        with_plugins, plain = measured[length]
        cells = [str(length), f"{without / 1e6:,.2f} ({plain / 1e6:,.2f} measured)"]
        cells += [f"{formula / 1e6:,.2f}", f"{with_plugins / 1e6:,.2f}", f"{formula / without:.3f}"]
        rows.append(cells)
    return "\n".join(lines) + "\n" + table(header, rows, text=()).rstrip()


def flops_report(
    checkpoint: str, ratio: int, bottleneck_dim: int, site: str, lengths: list[int]
) -> str:
    """Describe what plugins of this form would cost and save for the model in a checkpoint.

    Raises:
        UserError: an unusable checkpoint, or values of which no plugin can be made.
    """
    if not lengths or min(lengths) < 1:
        raise UserError(f"--lengths {lengths}: give lengths of 1 or more")
    cfg = VariatorConfig(
        backbone_path=checkpoint,
        compression_ratio=ratio,
        bottleneck_dim=bottleneck_dim,
        compression_site=site,
    )
    check_new_plugins(cfg)
    state = read_backbone(checkpoint, "CHECKPOINT")
    model = build_around(state, cfg)
    model.add_plugins(ratio, cfg)
    model.eval().to("meta")  # counted without memory, however long the sentences are
    measured = {}
    for length in lengths:
        with model.compression_ratio(ratio):
            with_plugins = measured_cost(model, length)
        measured[length] = (with_plugins, measured_cost(model, length))
    model.set_compression_ratio(ratio)
    return cost_table(shape_of(model), lengths, measured)
