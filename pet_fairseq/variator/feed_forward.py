"""The feed-forward network of one of fairseq's layers as one module."""

from torch import Tensor, nn


class FeedForward(nn.Module):
    """The two maps of a layer with all that is between them: T x B x C -> T x B x C."""

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


def replace_ffn(layer: nn.Module, module: nn.Module) -> None:
    """Let a layer run `module` (T x B x C -> T x B x C) as its feed-forward network."""
    layer.fc1 = module
    for name in ("activation_fn", "activation_dropout_module", "fc2"):
        setattr(layer, name, nn.Identity())
    layer.ffn_layernorm = None
