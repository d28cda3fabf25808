"""Registers Llama-type models with fairseq."""

from pet_fairseq.llama import model

__all__ = ["model"]
