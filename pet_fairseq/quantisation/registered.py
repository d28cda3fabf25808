"""All that fairseq registers of quantisation: the optimizer quantised_adam."""

from pet_fairseq.quantisation import optimizer

__all__ = ["optimizer"]
