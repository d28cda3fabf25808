"""How large a model is: its parameters and its compression rate (PET, section 4.1.3)."""

from argparse import Namespace
from typing import NamedTuple

import torch
from torch import nn

from pet_fairseq.architectures import build_without_memory
from pet_fairseq.attention import PROJECTIONS, MultiheadAttention
from pet_fairseq.layers import STACKS


class ParameterCounts(NamedTuple):
    """Numbers of parameters.

    Attributes:
        layers: stored in the encoder and decoder layers, shared ones once.
        unshared_layers: active in these layers in one forward pass: shared ones count in each layer
            that uses them, and attention heads that are not in use do not count.
        total: stored in the whole model.
    """

    layers: int
    unshared_layers: int
    total: int


def count_parameters(model: nn.Module) -> ParameterCounts:
    """Count the parameters of an encoder-decoder Transformer.

    Raises:
        AttributeError: the model has no encoder and decoder of Transformer layers.
    """
    stacks = nn.ModuleList([getattr(model, s).layers for s in STACKS])
    unused = sum(count_unused(m) for m in stacks.modules() if isinstance(m, MultiheadAttention))
    named = stacks.named_parameters(remove_duplicate=False)
    return ParameterCounts(
        layers=sum(p.numel() for p in stacks.parameters()),
        unshared_layers=sum(p.numel() for _, p in named) - unused,
        total=sum(p.numel() for p in model.parameters()),
    )


@torch.no_grad()
def count_unused(attention: MultiheadAttention) -> int:
    """How many stored parameters of its projections an attention does not use, in cut heads."""
    stored = sum(p.numel() for name in PROJECTIONS for p in getattr(attention, name).parameters())
    return stored - sum(p.numel() for name in PROJECTIONS for p in attention.weights_in_use(name))


def architecture_counts(arch: str) -> ParameterCounts:
    """Count the parameters of a named encoder-decoder architecture with its default options."""
    return count_parameters(build_without_memory(Namespace(arch=arch)))


def compression_rate(counts: ParameterCounts, reference: ParameterCounts) -> float:
    """Layer parameters as a share of the reference's, in percent."""
    return 100.0 * counts.layers / reference.layers
