"""Pairs to share: the candidates by hand."""

import itertools

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.pet.pair_search.candidates import matched_layers, pair_candidates, schemes
from pet_fairseq.pet.pair_search.report import read_stacks
from pet_fairseq.pet.pairs import expand_preset


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
    assert len(found) == 15 + 5 + 2 and len(schemes("decoder", 1)) == 15 + 2
    assert found["layers, Qself=Qenc"] == "L1=L4 L2=L5 L3=L6 Qself=Qenc"


@pytest.mark.parametrize("layers", [2, 4, 6])
@pytest.mark.parametrize(
    ("stack", "preset", "name"),
    [
        ("encoder", "pet", "layers, crosswise Q-K"),
        ("encoder", "layers", "layers"),
        ("decoder", "pet", "layers, Qself=Qenc"),
        ("decoder", "qk", "layers, Qself=Kself"),
        ("decoder", "qk_crosswise", "layers, crosswise Q-K"),
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
