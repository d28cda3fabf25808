"""Shared parameters, each found under its first name."""

from torch import nn

from pet_fairseq.checkpoints.tied_tensors import tied_names


def test_tied_names():
    model = nn.ModuleDict({name: nn.Linear(2, 2) for name in "abcd"})
    model["c"] = model["a"]
    model["d"].weight = model["b"].weight
    assert tied_names(model) == {"c.weight": "a.weight", "c.bias": "a.bias", "d.weight": "b.weight"}
    assert tied_names(nn.Linear(2, 2)) == {}
