"""Low-rank updates against merged weights in float64."""

import copy

import pytest
import torch
from torch import nn

from pet_fairseq.nn.low_rank import LowRankUpdates


def make(rank=3, alpha=6.0):
    torch.manual_seed(1)
    maps = [nn.Linear(5, 7).double(), nn.Linear(4, 2, bias=False).double()]
    for linear in maps:
        linear.requires_grad_(False)
    frozen = copy.deepcopy(maps)
    updates = LowRankUpdates(maps, rank, alpha)
    return maps, frozen, updates


def fill(updates):
    with torch.no_grad():
        for up in updates.up:
            up.normal_()


def test_maps_are_updated_inside_the_block_only():
    maps, frozen, updates = make()
    inputs = [torch.randn(6, linear.in_features, dtype=torch.double) for linear in maps]
    with updates.applied():  # B is zero
        for linear, before, x in zip(maps, frozen, inputs):
            assert torch.equal(linear(x), before(x))
    fill(updates)
    for linear, before, x, up, down in zip(maps, frozen, inputs, updates.up, updates.down):
        merged = copy.deepcopy(before)
        for i in range(merged.out_features):
            for j in range(merged.in_features):
                merged.weight[i, j] += 6.0 / 3 * sum(up[i, r] * down[r, j] for r in range(3))
        with updates.applied(), updates.applied():
            torch.testing.assert_close(linear(x), merged(x))
            assert not torch.allclose(linear(x), before(x))
        assert torch.equal(linear(x), before(x))
        assert linear.weight.data_ptr() == linear.parametrizations.weight.original.data_ptr()


def test_the_block_ends_at_an_error():
    maps, frozen, updates = make()
    fill(updates)
    with pytest.raises(ZeroDivisionError), updates.applied():
        raise ZeroDivisionError
    assert torch.equal(maps[0].weight, frozen[0].weight)


def test_nested_blocks_end_one_by_one():
    maps, frozen, updates = make()
    fill(updates)
    with updates.applied():
        with updates.applied():
            pass
        assert not torch.equal(maps[0].weight, frozen[0].weight)


def test_the_matrices_are_parameters_of_the_updates_alone():
    maps, frozen, updates = make()
    for linear, before in zip(maps, frozen):
        assert len(list(linear.parameters())) == len(list(before.parameters()))
    assert set(updates.state_dict()) == {"down.0", "down.1", "up.0", "up.1"}
    assert sum(p.numel() for p in updates.parameters()) == 3 * (5 + 7) + 3 * (4 + 2)


def test_a_copy_has_matrices_of_its_own():
    maps, _, updates = make()
    whole = nn.ModuleDict({"maps": nn.ModuleList(maps), "updates": updates})
    other = copy.deepcopy(whole)
    fill(other["updates"])
    with updates.applied(), other["updates"].applied():
        assert not torch.equal(other["maps"][0].weight, maps[0].weight)
    assert torch.equal(other["maps"][0].weight, maps[0].weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    maps, _, updates = make()
    nn.ModuleList([*maps, updates]).to(dtype)
    with updates.applied():
        assert maps[0].weight.dtype == dtype


def test_merged_weights_stay():
    maps, _, updates = make()
    fill(updates)
    with updates.applied():
        expected = [linear.weight.clone() for linear in maps]
    updates.merge_into(nn.ModuleList(maps))
    for linear, weight in zip(maps, expected):
        assert set(linear.state_dict()) <= {"weight", "bias"} and not linear.weight.requires_grad
        torch.testing.assert_close(linear.weight.detach(), weight)


def test_merging_leaves_what_others_have_parametrized():
    maps, _, updates = make()
    other = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    others = nn.Linear(3, 3)
    LowRankUpdates([others], 2, 1.0)
    updates.merge_into(nn.ModuleList([*maps, other, others]))
    found = [nn.utils.parametrize.is_parametrized(linear) for linear in [*maps, other, others]]
    assert found == [False, False, True, True]
