"""All that fairseq registers of the baselines."""

from pet_fairseq.baselines import can, deep_shallow, patient_kd

__all__ = ["can", "deep_shallow", "patient_kd"]
