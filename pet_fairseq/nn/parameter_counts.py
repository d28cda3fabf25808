"""How large a model is: its parameters and its compression rate (PET, section 4.1.3)."""

from argparse import Namespace
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.nn.attention import PROJECTIONS, MultiheadAttention
from pet_fairseq.nn.layers import STACKS

# fairseq's names for what turns a decoder's vectors into words, where it is a module of its own
OUTPUT_LAYERS = ("output_projection", "adaptive_softmax", "fc_out", "fc3")


class ParameterCounts(NamedTuple):
    """Numbers of parameters.

    Attributes:
        layers: stored in the encoder and decoder layers, shared ones once; in a model that is not
            made of layers alone, such as fconv and lstm, all between embeddings and output layer.
        unshared_layers: active in these layers in one forward pass: shared ones count in each layer
            that uses them, and attention heads that are not in use do not count.
        total: stored in the whole model.
    """

    layers: int
    unshared_layers: int
    total: int


def count_parameters(model: nn.Module) -> ParameterCounts:
    """Count the parameters of an encoder-decoder.

    Raises:
        AttributeError: the model has no encoder and decoder.
    """
    stacks = layers_of(model)
    unused = sum(count_unused(m) for m in stacks.modules() if isinstance(m, MultiheadAttention))
    counted = list(parameters_between(stacks))
    return ParameterCounts(
        layers=sum(p.numel() for p in set(counted)),
        unshared_layers=sum(p.numel() for p in counted) - unused,
        total=sum(p.numel() for p in model.parameters()),
    )


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The layers of encoder and decoder; where not both have such a list, the whole two.

    Raises:
        AttributeError: the model has no encoder and decoder.
    """
    stacks = [getattr(model, name) for name in STACKS]
    if all(hasattr(stack, "layers") for stack in stacks):
        stacks = [stack.layers for stack in stacks]
    return nn.ModuleList(stacks)


def parameters_between(stacks: nn.ModuleList) -> Iterator[nn.Parameter]:
    """Yield what lies between embeddings and output layer, a shared parameter for each use."""
    ends = [m for m in stacks.modules() if isinstance(m, nn.Embedding)]
    for stack in stacks:
        ends += [m for name, m in stack.named_children() if name in OUTPUT_LAYERS]
    outside = {parameter for end in ends for parameter in end.parameters()}
    for _, parameter in stacks.named_parameters(remove_duplicate=False):
        if parameter not in outside:
            yield parameter


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
