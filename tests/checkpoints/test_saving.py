"""Which tensors of a state count as stored ones."""

import torch
from omegaconf import OmegaConf

from pet_fairseq.checkpoints.saving import derived_state, equal_as_one, unique_tensors


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


def test_equal_tensors_are_stored_once(tmp_path):
    torch.manual_seed(0)
    first = torch.randn(100, 100)
    state = {
        **{"first": first, "copy": first.clone(), "transposed": first.t().clone()},
        **{"row": first[0], "as a matrix": first.clone().view(1, 10_000), "one": torch.tensor(1.0)},
        **{"half": first.bfloat16(), "double": first.double(), "whole": torch.tensor(1)},
    }
    shared = equal_as_one(state)
    assert list(shared) == list(state) and all(shared[n] is state[n] for n in state if n != "copy")
    assert shared["copy"] is first
    torch.save(shared, tmp_path / "shared")
    loaded = torch.load(tmp_path / "shared", weights_only=True)
    for name, tensor in state.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor)
    torch.save(state, tmp_path / "state")
    saved = (tmp_path / "state").stat().st_size - (tmp_path / "shared").stat().st_size
    assert saved >= 4 * first.numel()


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
