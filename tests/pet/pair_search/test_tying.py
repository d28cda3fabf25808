"""Tying slots by their averages, and what it leaves behind."""

import itertools

import pytest
import torch

from pet_fairseq.pet.pair_search.tying import (
    CannotTieError,
    averaged,
    mean_cosine,
    merge_groups,
    saved_parameters,
    tied_tensors,
)
from tests.helpers import build, plain, values


def test_average_of_a_pair_and_exact_restoration():
    model = plain()
    before = values(model)
    with averaged(tied_tensors(model.encoder.layers, "Q1=K3", "encoder")):
        inside = values(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in values(model).items())
    names = [f"encoder.layers.{layer}.self_attn.{p}_proj." for layer, p in ((0, "q"), (2, "k"))]
    for part in ("weight", "bias"):
        mean = (before[names[0] + part] + before[names[1] + part]) / 2
        for name in names:
            torch.testing.assert_close(inside.pop(name + part), mean, rtol=1e-6, atol=1e-7)
    assert all(torch.equal(tensor, before[name]) for name, tensor in inside.items())


def test_restoration_after_an_error():
    model = plain()
    before = values(model)
    with pytest.raises(KeyError), averaged(tied_tensors(model.decoder.layers, "L1=L3", "decoder")):
        raise KeyError
    assert all(torch.equal(tensor, before[name]) for name, tensor in values(model).items())


def test_group_of_three_is_averaged_over_the_group():
    model = plain()
    before = values(model)
    groups = tied_tensors(model.decoder.layers, "Qself2=Kself2 Qself2=Venc2", "decoder")
    names = [
        f"decoder.layers.1.{m}_proj." for m in "self_attn.q self_attn.k encoder_attn.v".split()
    ]
    with averaged(groups):
        inside = values(model)
    for part in ("weight", "bias"):
        total = sum(before[name + part].double() for name in names)
        for name in names:
            torch.testing.assert_close(inside[name + part], (total / 3).float(), rtol=0, atol=0)
    assert saved_parameters(groups) == 2 * (12 * 12 + 12)


def test_averages_of_equal_numbers_are_those_numbers():
    values = torch.rand(1000)
    group = [values.clone() for _ in range(3)]
    with averaged([group]):
        assert all(torch.equal(tensor, values) for tensor in group)


def test_groups_with_a_common_tensor_are_joined():
    a, b, c, d, e = torch.zeros(5, 1)
    groups = merge_groups([[a, b], [c, d], [e], [b, d]])
    expected = [{id(e)}, {id(t) for t in (a, b, c, d)}]
    assert [{id(t) for t in group} for group in groups] == expected


def test_cosine_by_hand():
    pair = [torch.tensor([[1.0, 0], [0, 0]]), torch.tensor([[1.0, 1], [0, 0]])]
    triple = [torch.eye(2), torch.eye(2), -torch.eye(2)]  # 1, -1, -1
    biases = [torch.ones(2), torch.ones(2)]
    assert mean_cosine([pair]) == pytest.approx(0.5**0.5)
    assert mean_cosine([triple]) == pytest.approx(-1 / 3)
    assert mean_cosine([pair, triple, biases]) == pytest.approx((0.5**0.5 - 1 / 3) / 2)


def test_slots_that_cannot_be_tied():
    wide = plain(encoder_embed_dim=12, decoder_embed_dim=18).decoder.layers
    assert tied_tensors(wide, "Kenc1=Venc1", "decoder")
    for pairs in ("Qself1=Kenc1", "Qself=Qenc Qself=Venc"):
        with pytest.raises(CannotTieError, match="shapes differ"):
            tied_tensors(wide, pairs, "decoder")
    alone = plain(no_cross_attention=True).decoder.layers
    with pytest.raises(CannotTieError, match="no such slot"):
        tied_tensors(alone, "Qself=Qenc", "decoder")
    student = build(encoder_pairs="pet", decoder_pairs="pet")
    for stack, pairs in (
        ("encoder", "Q1=K3"),
        ("encoder", "L1=L3"),
        ("encoder", "V1=V3"),
        ("decoder", "Qself3=Qenc1"),
        ("decoder", "Qself=Qenc"),
    ):
        with pytest.raises(CannotTieError, match="share already"):
            tied_tensors(getattr(student, stack).layers, pairs, stack)


def test_tying_in_a_student_moves_what_shares_with_the_pair():
    """Q1 is K3 and K1 is Q3 in this student: tying Q1 and K1 ties all four."""
    student = build(encoder_pairs="pet", decoder_pairs="pet")
    groups = tied_tensors(student.encoder.layers, "Q1=K1", "encoder")
    with averaged(groups):
        weights = [
            getattr(student.encoder.layers[i].self_attn, name).weight.clone()
            for i, name in itertools.product((0, 2), ("q_proj", "k_proj"))
        ]
    assert all(torch.equal(weight, weights[0]) for weight in weights)
    assert saved_parameters(groups) == 12 * 12 + 12
