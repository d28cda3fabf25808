"""All that fairseq registers of PET: its model and the criterion of the simplified task."""

from pet_fairseq.pet import simplified_task, transformer

__all__ = ["simplified_task", "transformer"]
