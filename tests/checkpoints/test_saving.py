"""Which tensors of a state count as stored ones."""

import torch
from omegaconf import OmegaConf

from pet_fairseq.checkpoints.saving import derived_state, unique_tensors


def test_unique_tensors():
    first, equal = torch.arange(6.0), torch.arange(6.0)
    state = {
        "first": first,
        "same": first,
        "view": first.view(6),
        "equal": equal,
        "half": first[:3],
        "other half": first[3:],
        "encoder.version": torch.ones(1),
        "decoder.embed_positions._float_tensor": torch.ones(1),
    }
    unique = unique_tensors(state)
    assert list(unique) == ["first", "equal", "half", "other half"]
    assert all(unique[name] is state[name] for name in unique)


def test_a_derived_checkpoint_has_nothing_of_the_old_training():
    old, new = {"w": torch.ones(3)}, {"w": torch.zeros(2)}
    state = {
        "cfg": OmegaConf.create({"model": {"width": 3}}),
        "model": old,
        "last_optimizer_state": {"a": 1},
        "optimizer_history": [1],
        "extra_state": {"epoch": 2, "ema": old, "ema_fp32_params": old},
    }
    derived = derived_state(state, new)
    assert derived == {
        "cfg": {"model": {"width": 3}},
        "model": new,
        "optimizer_history": [1],
        "extra_state": {"epoch": 2, "ema": new},  # without one, fairseq's --store-ema fails
    }
    del state["extra_state"]["ema"]
    assert derived_state(state, new)["extra_state"] == {"epoch": 2}
