"""All that fairseq registers for classification: the task pet_sentence_prediction."""

from pet_fairseq.predict import task

__all__ = ["task"]
