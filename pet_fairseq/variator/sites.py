"""The parts of a layer that can work on groups of positions: --compression-site.

A new one is an entry of SITES and one of SITE_MODULES in site_modules.py. Neither torch nor fairseq
is imported here, so that a command line can list the names at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pet_fairseq.variator.costs import (
    Shape,
    attention_cost,
    compression_cost,
    compression_parameters,
    decompression_cost,
    decompression_parameters,
    ffn_cost,
    plain_layer_cost,
)

# the values that options may have
COMPRESSIONS = ("weighted", "mean")
DECOMPRESSIONS = ("adapter", "copy")
ACTIVATIONS = ("tanh", "none")  # --adapter-activation
STACKS = ("auto", "encoder", "decoder")  # --compression-stack


@dataclass(frozen=True)
class Site:
    """A part of a layer with a plugin around it.

    Args:
        part_costs: from a shape, the positions of a sentence and its groups to the multiply-adds
            of attention and feed-forward network together.
        decompresses: whether the part's outputs are groups, from which the plugin makes positions.
    """

    part_costs: Callable[[Shape, int, int], int]
    decompresses: bool = True

    def plugin_parameters(self, shape: Shape) -> int:
        """Parameters of a plugin: k^2 d + k + 3 r d + r + d (Variator, section 3.4).

        Without decompression: k^2 d + k.
        """
        adapter = decompression_parameters(shape) if self.decompresses else 0
        return compression_parameters(shape) + adapter

    def layer_cost(self, shape: Shape, length: int) -> int:
        """Multiply-adds of a layer with its plugin for a sentence; ratio 1 means without plugin."""
        if shape.ratio == 1:
            return plain_layer_cost(shape, length)
        adapter = decompression_cost(shape, length) if self.decompresses else 0
        parts = self.part_costs(shape, length, shape.num_groups(length))
        return parts + compression_cost(shape, length) + adapter


SITES = {
    "ffn": Site(
        lambda shape, t, g: attention_cost(shape, t, t) + ffn_cost(shape, g),
    ),
    "attention": Site(
        lambda shape, t, g: attention_cost(shape, g, g) + ffn_cost(shape, t),
    ),
    "attention-kv": Site(
        lambda shape, t, g: attention_cost(shape, t, g) + ffn_cost(shape, t),
        decompresses=False,
    ),
}
