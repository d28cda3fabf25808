"""What all layers of fairseq's Transformers have in common, whatever is inside them."""

from argparse import Namespace

import torch.nn.functional as F
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.gelu import gelu
from torch import nn

from pet_fairseq.errors import UserError

STACKS = ("encoder", "decoder")


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Wrap a layer as fairseq does: activation checkpointing and FSDP, if the options say so."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=min_params)


def use_torch_gelu(model: nn.Module) -> None:
    """Replace fairseq's GELU in all layers by torch's, which gives the same values.

    Of half precision, fairseq's makes a copy in float32 and rounds what comes of it, as torch's
    kernels do inside.
    """
    for module in model.modules():
        if getattr(module, "activation_fn", None) is gelu:
            module.activation_fn = F.gelu


def attentions_of(layers: nn.ModuleList) -> dict[str, list[nn.Module]]:
    """The attentions of a stack, by their name in a layer, in the order of the layers."""
    attentions: dict[str, list[nn.Module]] = {}
    for i in range(len(layers)):  # by index: LayerDrop leaves some out of an iteration
        for name in ("self_attn", "encoder_attn"):
            attention = getattr(layers[i], name, None)
            if attention is not None:
                attentions.setdefault(name, []).append(attention)
    return attentions


def check_backend(args: Namespace, model: nn.Module) -> None:
    """Refuse training in several processes that would stop in its first update.

    Raises:
        UserError: torch's DistributedDataParallel refuses a parameter that several layers with
            checkpointed activations share: it is "marked as ready twice".
    """
    wrapped_by_torch = getattr(args, "ddp_backend", None) in ("pytorch_ddp", "c10d")
    processes = getattr(args, "distributed_world_size", 1)
    if not (args.checkpoint_activations and wrapped_by_torch and processes > 1):
        return
    if layers_share_parameters(model):
        raise UserError(
            f"--checkpoint-activations: with --ddp-backend {args.ddp_backend} layers that share "
            "parameters cannot be trained in several processes; give --ddp-backend legacy_ddp"
        )


def layers_share_parameters(model: nn.Module) -> bool:
    """Whether several layers of a stack have a parameter in common."""
    stacks = [getattr(model, stack).layers for stack in STACKS]
    # by index: LayerDrop leaves some out of an iteration
    layers = [set(stack[i].parameters()) for stack in stacks for i in range(len(stack))]
    return sum(map(len, layers)) > len(set().union(*layers))
