"""The feed-forward network of one of fairseq's layers as one module, and its neurons.

A neuron is a column of the last map, fc2, with what makes its value: a row of the first map, fc1.
Where the network is gated (SwiGLU), fc1 is two maps in one, the gate's rows above those of up; a
neuron then is a row of each.
"""

import torch
from torch import Tensor, nn


def inner_width(layer: nn.Module) -> int:
    """The number of neurons of a layer's feed-forward network."""
    return layer.fc2.in_features


def maps_into(layer: nn.Module) -> int:
    """How many maps fc1 holds: 1, or 2 in a gated network (the gate and up)."""
    return layer.fc1.out_features // inner_width(layer)


def neuron_rows(layer: nn.Module, neurons: Tensor) -> Tensor:
    """The rows of fc1 that belong to some neurons (indices), map by map."""
    starts = range(0, layer.fc1.out_features, inner_width(layer))
    return torch.cat([neurons + start for start in starts])


class FeedForward(nn.Module):
    """The feed-forward network of a layer: T x B x C -> T x B x C."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.fc1 = layer.fc1
        self.activation_fn = layer.activation_fn
        self.activation_dropout_module = layer.activation_dropout_module
        self.ffn_layernorm = getattr(layer, "ffn_layernorm", None)  # decoders with --scale-fc
        self.fc2 = layer.fc2

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        if self.ffn_layernorm is not None:
            x = self.ffn_layernorm(x)
        return self.fc2(x)

    def active_neurons(self, x: Tensor) -> Tensor:
        """Which neurons get more than 0 from the first map, or from the gate: T x B x F, bool."""
        return self.fc1(x)[..., : inner_width(self)] > 0


def replace_ffn(layer: nn.Module, module: nn.Module) -> None:
    """Let a layer run `module` (T x B x C -> T x B x C) as its feed-forward network."""
    layer.fc1 = module
    for name in ("activation_fn", "activation_dropout_module", "fc2"):
        setattr(layer, name, nn.Identity())
    layer.ffn_layernorm = None
