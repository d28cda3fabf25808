"""What torch's safe loading accepts in checkpoints of fairseq."""

from pet_fairseq.checkpoints.safe_loading import allow_fairseq_types

allow_fairseq_types()
