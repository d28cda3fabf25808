"""Which layers are matched, and the distance of states."""

import math

import pytest
import torch

from pet_fairseq.baselines.patience import (
    last_layers,
    patience_layers,
    skip_layers,
    unit_distance,
)
from pet_fairseq.errors import UserError


@pytest.mark.parametrize(
    ("teacher", "student", "skip", "last"),
    [
        (6, 4, [2, 3, 5], [3, 4, 5]),
        (6, 3, [2, 4], [4, 5]),
        (6, 2, [3], [5]),
        (12, 6, [2, 4, 6, 8, 10], [7, 8, 9, 10, 11]),  # BERT, in the paper
        (12, 3, [4, 8], [10, 11]),
        (6, 6, [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        (6, 1, [], []),
    ],
)
def test_maps(teacher, student, skip, last):
    assert skip_layers(teacher, student) == skip
    assert last_layers(teacher, student) == last


SIX = dict(encoder=6, decoder=6)


@pytest.mark.parametrize(
    ("text", "student", "encoder", "decoder"),
    [
        ("skip", (4, 2), [2, 3, 5], [3]),
        ("last", (4, 1), [3, 4, 5], []),
        ("2,3,5", (4, 4), [2, 3, 5], [2, 3, 5]),
        ("2,3,5/2,4", (4, 3), [2, 3, 5], [2, 4]),
        ("6, 6 / last", (3, 3), [6, 6], [4, 5]),
        ("1/", (2, 1), [1], []),
    ],
)
def test_option(text, student, encoder, decoder):
    found = patience_layers(text, SIX, dict(zip(("encoder", "decoder"), student)))
    assert found == dict(encoder=encoder, decoder=decoder)


@pytest.mark.parametrize(
    ("text", "student", "message"),
    [
        ("middle", (4, 4), "'middle' is not last, skip or a list"),
        ("", (4, 4), "encoder has 4 layers, so list 3 "),
        ("2,3.5,4", (4, 4), "'2,3.5,4' is not last, skip or a list"),
        ("2,3", (4, 4), "the student's encoder has 4 layers, so list 3 .*, not 2; .*ENCODER/DEC"),
        ("2,3,5", (4, 3), "the student's decoder has 3 layers, so list 2 .*, not 3"),
        ("2,3,5/2/4", (4, 3), "give one map, or two as ENCODER/DECODER"),
        ("2,3,7", (4, 4), "layer 7 is not one of the teacher's encoder layers 1..6"),
        ("2,3,5/0,4,5", (4, 4), "layer 0 is not one of the teacher's decoder layers 1..6"),
        (
            "last",
            (8, 8),
            "the student's encoder has 8 layers, more than the teacher's, which has 6",
        ),
    ],
)
def test_wrong_option(text, student, message):
    with pytest.raises(UserError, match=f"^--patience-layers {text}: .*{message}") as error:
        patience_layers(text, SIX, dict(zip(("encoder", "decoder"), student)))
    assert "\n" not in str(error.value)


def test_nothing_to_match():
    with pytest.raises(UserError, match=r"^--patience-layers: nothing to match.*--encoder-layers"):
        patience_layers("skip", SIX, dict(encoder=1, decoder=1))


def test_distance_equals_loops():
    student, teacher = (torch.randn(5, 7, dtype=torch.float64) for _ in range(2))
    total = 0.0
    for s, t in zip(student.tolist(), teacher.tolist()):
        s_norm, t_norm = (math.sqrt(sum(x * x for x in v)) for v in (s, t))
        total += sum((a / s_norm - b / t_norm) ** 2 for a, b in zip(s, t))
    assert unit_distance(student, teacher).item() == pytest.approx(total / 5, rel=1e-12)


def test_no_position_has_no_distance():
    student = torch.ones(0, 4, requires_grad=True)
    distance = unit_distance(student, torch.ones(0, 4))
    distance.backward()
    assert distance.item() == 0 and student.grad.shape == (0, 4)


def test_distance_sees_directions_only():
    x = torch.randn(6, 8)
    assert unit_distance(x, 3 * x).item() == pytest.approx(0, abs=1e-6)
    assert unit_distance(x, -x).item() == pytest.approx(4, abs=1e-5)
    large = (1e4 * x).half()  # its squares are beyond half precision
    assert unit_distance(large, -x.half()).item() == pytest.approx(4, abs=1e-3)
