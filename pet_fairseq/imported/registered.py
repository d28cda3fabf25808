"""Registers the models that other libraries define with fairseq."""

from pet_fairseq.imported import bert, gpt2, marian

__all__ = ["bert", "gpt2", "marian"]
