"""All that fairseq registers for decoding: the task pet_translation."""

from pet_fairseq.decoding import task

__all__ = ["task"]
