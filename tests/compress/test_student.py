"""Shapes that reach a size."""

import itertools

import pytest

from pet_fairseq.compress.student import STEP, Shape, check_size, depths, find_shape
from pet_fairseq.compress.training import METHODS
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.pet.params import parse_model_options


def slow_size(shape, measure):
    args = parse_model_options(["--arch", "transformer", *shape.options])
    return measure(build_without_memory(args, 30, 30))


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers, target", [((1, 1), 9_000), ((1, 1), 31_000), ((1, 1), 60_123), ((3, 1), 60_123)]
)
def test_nearest_shape(layers, target):
    def measure(model):
        return sum(p.numel() for p in model.parameters())

    found = find_shape(("--arch", "transformer"), (30, 30), layers, measure, target)
    assert found.size == slow_size(found.shape, measure)
    assert found.shape.width % STEP == found.shape.ffn % STEP == 0
    steps = [STEP * n for n in range(2, 14)]
    pairs = itertools.product(steps, steps)
    every = [Shape(layers, w, f) for w, f in pairs if w <= f <= 4 * w]
    best = min(abs(slow_size(shape, measure) - target) for shape in every)
    assert abs(found.size - target) <= max(2 * best, 0.03 * target)


def test_layers_of_encoder_and_decoder():
    options = Shape((6, 1), 40, 80).options
    assert options[options.index("--encoder-layers") + 1] == "6"
    assert options.count("--decoder-layers") == 1
    assert options[options.index("--decoder-layers") + 1] == "1"


@pytest.mark.parametrize(
    "method, teacher, expected",
    [
        ("distil", (6, 6), [(2, 2), (4, 4), (6, 6)]),
        ("distil", (12, 2), [(2, 2)]),
        ("distil", (3, 3), [(2, 2)]),
        ("pet", (6, 6), [(4, 4), (6, 6)]),
        ("deep-shallow", (6, 6), [(6, 1), (8, 1), (10, 1)]),
        ("deep-shallow", (3, 3), [(6, 1)]),
    ],
)
def test_depths(method, teacher, expected):
    assert list(depths(METHODS[method], *teacher)) == expected


def test_a_size_that_is_out_of_reach():
    check_size("--rate", 10, 10.9, 0.1, "%")
    with pytest.raises(UserError, match=r"--rate 1: the nearest student .* 1\.7%; give more"):
        check_size("--rate", 1, 1.7, 0.1, "%")
    with pytest.raises(UserError, match=r"--megabytes 5: the nearest student .* 4 MB; give less"):
        check_size("--megabytes", 5, 4, 0.1, " MB")
