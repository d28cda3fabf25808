"""What all layers of fairseq's Transformers have in common, whatever is inside them."""

from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import nn

STACKS = ("encoder", "decoder")


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Wrap a layer as fairseq does: activation checkpointing and FSDP, if the options say so."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=min_params)


def attentions_of(layers: nn.ModuleList) -> dict[str, list[nn.Module]]:
    """The attentions of a stack, by their name in a layer, in the order of the layers."""
    attentions: dict[str, list[nn.Module]] = {}
    for i in range(len(layers)):  # by index: LayerDrop leaves some out of an iteration
        for name in ("self_attn", "encoder_attn"):
            attention = getattr(layers[i], name, None)
            if attention is not None:
                attentions.setdefault(name, []).append(attention)
    return attentions
