"""The values that Variator's options may have; imports neither torch nor fairseq."""

from pet_fairseq.variator.sites import SITES

__all__ = ["ACTIVATIONS", "COMPRESSIONS", "DECOMPRESSIONS", "SITES", "STACKS"]

COMPRESSIONS = ("weighted", "mean")
DECOMPRESSIONS = ("adapter", "copy")
ACTIVATIONS = ("tanh", "none")  # --adapter-activation
STACKS = ("auto", "encoder", "decoder")  # --compression-stack
