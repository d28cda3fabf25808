"""Costs by formula: the shape of a stack, and multiply-adds and parameters of its parts."""

from typing import NamedTuple


class Shape(NamedTuple):
    """A stack and its plugins: layers, d, FFN width, k, r; the others as in `VariatorConfig`.

    Attributes:
        ffn_maps: matrices of d x FFN width in a feed-forward network: 3 with a gate, else 2.
        ffn_biases: whether these maps have biases.
        query_dim, key_dim: width of all heads of queries, and of keys; 0 stands for d.
    """

    layers: int
    embed_dim: int
    ffn_embed_dim: int
    ratio: int
    bottleneck_dim: int
    site: str = "ffn"
    compression: str = "weighted"
    decompression: str = "adapter"
    ffn_maps: int = 2
    ffn_biases: bool = True
    query_dim: int = 0
    key_dim: int = 0

    def num_groups(self, length: int) -> int:
        """The number of groups of k that a length of T positions has: ceil(T / k)."""
        return -(-length // self.ratio)


def attention_cost(shape: Shape, queries: int, keys: int) -> int:
    """Multiply-adds of a self-attention with the given numbers of queries and keys."""
    d = shape.embed_dim
    query_dim, key_dim = shape.query_dim or d, shape.key_dim or d
    projections = 2 * (queries * query_dim + keys * key_dim) * d
    return projections + 2 * queries * keys * query_dim


def ffn_cost(shape: Shape, positions: int) -> int:
    """Multiply-adds of a feed-forward network for a number of positions."""
    return positions * ffn_matrices(shape)


def ffn_matrices(shape: Shape) -> int:
    """Numbers in the matrices of one feed-forward network."""
    return shape.ffn_maps * shape.embed_dim * shape.ffn_embed_dim


def plain_layer_cost(shape: Shape, length: int) -> int:
    """Multiply-adds of a layer without plugins."""
    return attention_cost(shape, length, length) + ffn_cost(shape, length)


def ffn_parameters(shape: Shape) -> int:
    """Parameters of one feed-forward network."""
    biases = shape.embed_dim + (shape.ffn_maps - 1) * shape.ffn_embed_dim
    return ffn_matrices(shape) + (biases if shape.ffn_biases else 0)


# --- the plugin -----------------------------------------------------------------------------------


def compression_parameters(shape: Shape) -> int:
    """Parameters of the first half of a plugin, the weights of a group: k^2 d + k."""
    d, k = shape.embed_dim, shape.ratio
    return k * k * d + k if shape.compression == "weighted" else 0


def decompression_parameters(shape: Shape) -> int:
    """Parameters of its second half, the adapter: 3 r d + r + d."""
    d, r = shape.embed_dim, shape.bottleneck_dim
    return 3 * r * d + r + d if shape.decompression == "adapter" else 0


def compression_cost(shape: Shape, length: int) -> int:
    """Multiply-adds of the members' scores; zeros fill up the last group.

    The weighted sum of the members is not a matrix product and is not counted.
    """
    filled = shape.num_groups(length) * shape.ratio
    return filled * shape.ratio * shape.embed_dim if shape.compression == "weighted" else 0


def decompression_cost(shape: Shape, length: int) -> int:
    """Multiply-adds of the adapter, which makes positions again from groups.

    The half of the adapter's first map that reads the group's output is computed once per group, so
    this is less than the paper's formula.
    """
    if shape.decompression != "adapter":
        return 0
    groups, width = shape.num_groups(length), shape.bottleneck_dim * shape.embed_dim
    return 2 * groups * shape.ratio * width + groups * width


# --- the paper's formulas -------------------------------------------------------------------------


def paper_plugin_cost(shape: Shape) -> int:
    """Operations per position at an FFN: (k d + 2 d + 3) + (3 r d + 2 d + r) (section 3.4)."""
    d, k, r = shape.embed_dim, shape.ratio, shape.bottleneck_dim
    return (k * d + 2 * d + 3) + (3 * r * d + 2 * d + r)


def paper_ffn_saving(shape: Shape) -> float:
    """The share of an FFN's cost that its plugin saves, by the paper's formula."""
    return 1 - 1 / shape.ratio - paper_plugin_cost(shape) / ffn_matrices(shape)
