"""Which tensors of a state count as stored ones."""

import torch

from pet_fairseq.checkpoints.saving import unique_tensors


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
