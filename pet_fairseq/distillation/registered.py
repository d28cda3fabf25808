"""All that fairseq registers for distillation: the criterion pet_distillation."""

from pet_fairseq.distillation import criterion

__all__ = ["criterion"]
