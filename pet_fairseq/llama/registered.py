"""What fairseq registers of Llama-type models."""

from pet_fairseq.llama import model

__all__ = ["model"]
