"""What fairseq learns of this folder; `registry` imports it."""

from pet_fairseq.quantisation import optimizer

__all__ = ["optimizer"]
