"""What fairseq registers of other libraries' tokenizers."""

from pet_fairseq.pretrained import bpe

__all__ = ["bpe"]
