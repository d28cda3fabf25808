"""Shared parameters, each found under its first name."""

import pytest
from fairseq import utils
from torch import nn

from pet_fairseq.checkpoints.tied_tensors import tied_names
from pet_fairseq.errors import UserError
from tests.distributed.cases import CASES, TIED, build, read_options


def test_tied_names():
    model = nn.ModuleDict({name: nn.Linear(2, 2) for name in "abcd"})
    model["c"] = model["a"]
    model["d"].weight = model["b"].weight
    assert tied_names(model) == {"c.weight": "a.weight", "c.bias": "a.bias", "d.weight": "b.weight"}
    assert tied_names(nn.Linear(2, 2)) == {}


MODELS = {
    "bert": "",
    "gpt2": TIED,
    "llama": TIED,
    "marian": "--share-all-embeddings --share-decoder-input-output-embed",
    "t5": "",
    "pet_distillation, tied": "",
}


@pytest.mark.parametrize("name", MODELS)
def test_checkpoints_hold_shared_tensors_once(name, prepared):
    _, model = build(read_options(CASES[name], prepared, MODELS[name]))
    state = utils.move_to_cpu(model.bfloat16().state_dict())  # as fairseq saves; it copies
    parameters = dict(model.named_parameters())
    stored = [tensor for key, tensor in state.items() if key in parameters]
    assert sum(tensor.numel() for tensor in stored) == sum(p.numel() for p in parameters.values())
    further = tied_names(model)
    assert further and not further.keys() & state.keys()

    copies = {key: state[first].clone() for key, first in further.items()}
    for loaded in (state, state | copies):
        model.load_state_dict(dict(loaded), strict=True)
    key = next(iter(further))
    with pytest.raises(UserError, match="differ, but this model shares them"):
        model.load_state_dict(state | {key: copies[key] + 1}, strict=True)
