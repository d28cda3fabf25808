"""What SelfCP trains beside the memory tag, and what the tag begins as."""

from collections.abc import Sequence

from torch import nn

CONNECTORS = ("linear", "linear_norm")


def make_connector(kind: str, embed_dim: int) -> nn.Module:
    """The map from the model's last states to vectors that it reads.

    linear: the paper's map, d x d with a bias. linear_norm: a layer norm after it, as in the
    released code.
    """
    linear = nn.Linear(embed_dim, embed_dim)
    return linear if kind == "linear" else nn.Sequential(linear, nn.LayerNorm(embed_dim))


def rarest_word(counts: Sequence[int], special: int) -> int:
    """The word with the lowest count above 0; `special`: how many symbols come before words."""
    used = [i for i in range(special, len(counts)) if counts[i] > 0]
    return min(used, key=lambda i: counts[i], default=special)
