"""Criterions load what is theirs from any checkpoint and start the rest anew."""

import pytest
import torch
from torch import nn

from pet_fairseq.distillation.criterion_state import load_own_state
from pet_fairseq.errors import UserError


class Criterion(nn.Module):
    def __init__(self):
        super().__init__()
        self.maps = nn.ModuleList([nn.Linear(3, 2, bias=False), nn.Linear(3, 2, bias=False)])


@pytest.fixture
def criterion():
    return Criterion()


def values(criterion):
    return {name: tensor.clone() for name, tensor in criterion.state_dict().items()}


def test_all_is_loaded_in_silence(criterion, caplog):
    state = {name: tensor + 1 for name, tensor in values(criterion).items()}
    load_own_state(criterion, state, "maps")
    assert all(torch.equal(tensor, state[name]) for name, tensor in values(criterion).items())
    assert caplog.text == ""


@pytest.mark.parametrize("state", [None, {}, {"class_layer.weight": torch.ones(4, 9)}])
def test_another_criterions_checkpoint_changes_nothing(criterion, state, caplog):
    before = values(criterion)
    load_own_state(criterion, state, "maps")
    assert all(torch.equal(tensor, before[name]) for name, tensor in values(criterion).items())
    assert [r.getMessage() for r in caplog.records] == [
        "the checkpoint holds no maps; they start anew"
    ]


def test_what_is_there_is_loaded(criterion, caplog):
    before = values(criterion)
    load_own_state(criterion, {"maps.1.weight": torch.ones(2, 3)}, "maps")
    assert torch.equal(criterion.maps[0].weight, before["maps.0.weight"])
    assert torch.equal(criterion.maps[1].weight, torch.ones(2, 3))
    assert len(caplog.records) == 1


def test_another_shape_is_one_line(criterion):
    with pytest.raises(
        UserError, match=r"^--criterion: maps.0.weight is 2 x 4 in .* and 2 x 3"
    ) as e:
        load_own_state(criterion, {"maps.0.weight": torch.ones(2, 4)}, "maps")
    assert "\n" not in str(e.value)
