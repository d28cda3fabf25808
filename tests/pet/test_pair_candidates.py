"""Pairs to share: the candidates, and tying them by averages."""

import itertools

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.pet.pair_report import read_stacks
from pet_fairseq.pet.pair_search import (
    CannotTieError,
    averaged,
    matched_layers,
    mean_cosine,
    merge_groups,
    pair_candidates,
    saved_parameters,
    schemes,
    tied_tensors,
)
from pet_fairseq.pet.pairs import expand_preset
from tests.helpers import build, plain, values

# --- candidates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (1, []),
        (2, [(1, 2)]),
        (3, [(1, 3)]),
        (5, [(1, 4), (2, 5)]),
        (6, [(1, 4), (2, 5), (3, 6)]),
    ],
)
def test_matched_layers(layers, expected):
    assert matched_layers(layers) == expected


def test_pairs_of_two_encoder_layers_by_hand():
    between = "L1=L2 Q1=Q2 K1=K2 V1=V2 Q1=K2 K1=Q2"
    inside = "Q1=K1 K1=V1 Q1=V1 Q2=K2 K2=V2 Q2=V2"
    found = pair_candidates("encoder", 2, "thesis")
    assert sorted(found) == sorted(f"{between} {inside}".split())


@pytest.mark.parametrize(
    ("stack", "layers", "which", "count"),
    [
        ("encoder", 6, "thesis", 15 + 3 * 5 + 6 * 3),
        ("encoder", 3, "thesis", 3 + 5 + 3 * 3),
        ("encoder", 1, "thesis", 3),
        ("decoder", 2, "thesis", 1 + 2 * 15),
        ("decoder", 6, "thesis", 15 + 6 * 15),
        ("encoder", 2, "all", 1 + 28),  # 8 projections
        ("encoder", 6, "all", 15 + 276),  # 24
        ("decoder", 2, "all", 1 + 120),  # 16
        ("decoder", 6, "all", 15 + 1128),  # 48
    ],
)
def test_number_of_pairs(stack, layers, which, count):
    found = pair_candidates(stack, layers, which)
    assert len(found) == len({frozenset(pair.split("=")) for pair in found}) == count
    if which == "all":
        assert {*pair_candidates(stack, layers, "thesis")} <= {*found}


def test_encoder_schemes_by_hand():
    assert schemes("encoder", 4) == {
        "layers": "L1=L3 L2=L4",
        "layers, crosswise Q-K": "L1=L3 L2=L4 Q1=K3 K1=Q3 Q2=K4 K2=Q4",
        "crosswise Q-K": "Q1=K3 K1=Q3 Q2=K4 K2=Q4",
        "Q-Q and K-K": "Q1=Q3 K1=K3 Q2=Q4 K2=K4",
        "Q-Q": "Q1=Q3 Q2=Q4",
        "K-K": "K1=K3 K2=K4",
        "V-V": "V1=V3 V2=V4",
        "Q=K": "Q=K",
        "K=V": "K=V",
        "Q=V": "Q=V",
        "Q=K Q=V": "Q=K Q=V",
    }
    assert schemes("encoder", 3)["crosswise Q-K"] == "Q1=K3 K1=Q3"
    assert [*schemes("encoder", 1)] == ["Q=K", "Q=V", "K=V", "Q=K Q=V"]


def test_decoder_schemes_by_hand():
    found = schemes("decoder", 6)
    slots = "Qself Kself Vself Qenc Kenc Venc".split()
    assert {f"{a}={b}" for a, b in itertools.combinations(slots, 2)} <= {*found}
    assert len(found) == 15 + 4 + 2 and len(schemes("decoder", 1)) == 15 + 2
    assert found["layers, Qself=Qenc"] == "L1=L4 L2=L5 L3=L6 Qself=Qenc"


@pytest.mark.parametrize("layers", [2, 4, 6])
@pytest.mark.parametrize(
    ("stack", "preset", "name"),
    [
        ("encoder", "pet", "layers, crosswise Q-K"),
        ("encoder", "layers", "layers"),
        ("decoder", "pet", "layers, Qself=Qenc"),
        ("decoder", "qk", "layers, Qself=Kself"),
        ("decoder", "kv", "layers, Kself=Vself Kenc=Venc"),
        ("decoder", "layers", "layers"),
    ],
)
def test_presets_are_among_the_schemes(stack, preset, name, layers):
    ours, theirs = schemes(stack, layers)[name], expand_preset(preset, stack, layers)
    assert sorted(ours.split()) == sorted(theirs.split())


def test_unknown_candidates_and_stacks():
    with pytest.raises(UserError, match="--candidates some: give one of thesis, all"):
        pair_candidates("encoder", 2, "some")
    for wrong in ("middle", "encoder,", "encoder,encoder", ""):
        with pytest.raises(UserError, match=f"--stacks {wrong}: give"):
            read_stacks(wrong)
    assert read_stacks("decoder, encoder") == ["decoder", "encoder"]


# --- tying ----------------------------------------------------------------------------------------


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
