"""Lets torch's safe loading accept fairseq's options in checkpoints."""

from pet_fairseq.checkpoints.safe_loading import allow_fairseq_types

allow_fairseq_types()
