"""The connector, which SelfCP trains beside the memory tag, and the word that the tag starts as."""

from collections.abc import Sequence

from torch import nn

CONNECTORS = ("linear", "linear_norm")


def make_connector(kind: str, embed_dim: int) -> nn.Module:
    """The map from the model's last states to vectors that it reads (SelfCP, eq. 2).

    linear: the paper's map, d x d, with a bias as in the released code. linear_norm: a layer norm
    after it, also as in that code.
    """
    linear = nn.Linear(embed_dim, embed_dim)
    return linear if kind == "linear" else nn.Sequential(linear, nn.LayerNorm(embed_dim))


def rarest_word(counts: Sequence[int], special: int) -> int:
    """The word with the lowest count above 0; `special`: how many symbols come before words."""
    used = [i for i in range(special, len(counts)) if counts[i] > 0]
    return min(used, key=lambda i: counts[i], default=special)
