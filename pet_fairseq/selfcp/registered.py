"""All that fairseq registers of SelfCP."""

from pet_fairseq.selfcp import criterion, model, task

__all__ = ["criterion", "model", "task"]
