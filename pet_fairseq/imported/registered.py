"""What fairseq registers of models that other libraries define."""

from pet_fairseq.imported import bert, gpt2, marian

__all__ = ["bert", "gpt2", "marian"]
