"""Registers the tokenizers of imported models with fairseq."""

from pet_fairseq.pretrained import bpe

__all__ = ["bpe"]
