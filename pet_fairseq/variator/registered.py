"""All that fairseq registers of Variator and its competitors."""

from pet_fairseq.variator import criterion, model
from pet_fairseq.variator.competitors import first_layers, narrow_ffn, token_pruning

__all__ = ["criterion", "first_layers", "model", "narrow_ffn", "token_pruning"]
