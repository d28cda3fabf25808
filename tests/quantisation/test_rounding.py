"""The grid against loops in float64."""

import math

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.quantisation.rounding import (
    check_bits,
    dequantise,
    fake_quantise,
    pack,
    quantise,
    unpack,
)

ROWS = {
    "spread": [0.03, -1.7, 0.9, 0.0, 1.69],
    "zeros": [0.0, 0.0, 0.0, 0.0, 0.0],
    "equal": [-0.3, -0.3, -0.3, -0.3, -0.3],
    "one large": [1e4, 1e-3, -1e-3, 7.0, 40.0],
    "tiny": [1e-20, -3e-20, 2e-20, 0.0, 5e-21],
}


def bfloat16(x: float) -> float:
    """The nearest number with 8 significant bits, of two equally near ones the even one."""
    mantissa, exponent = math.frexp(x)  # 0.5 <= mantissa < 1
    return math.ldexp(round(mantissa * 256), exponent - 8)


def quantised_row(row: list[float], bits: int) -> tuple[list[int], float]:
    """The integers and the scale of a row."""
    n = 2 ** (bits - 1) - 1
    scale = bfloat16(max(abs(x) for x in row) / n)
    if scale == 0:
        return [0] * len(row), 0.0
    return [min(n, max(-n, round(x / scale))) for x in row], scale


@pytest.mark.parametrize("bits", [8, 4])
def test_equals_loops(bits):
    rows = [*ROWS.values(), *torch.randn(50, 5, dtype=torch.float64).tolist()]
    codes, scales = quantise(torch.tensor(rows, dtype=torch.float64), bits)
    matrix = dequantise(codes, scales)
    assert codes.dtype == torch.int8 and scales.dtype == torch.bfloat16
    for i, row in enumerate(rows):
        integers, scale = quantised_row(row, bits)
        assert (codes[i].tolist(), scales[i].item()) == (integers, scale)
        assert matrix[i].tolist() == [scale * integer for integer in integers]


@pytest.mark.parametrize("bits", [8, 4])
def test_rows_on_the_grid_stay_as_they_are(bits):
    matrix = torch.randn(2000, 7) * torch.logspace(-8, 8, 2000)[:, None]
    once = fake_quantise(matrix, bits)
    assert torch.equal(fake_quantise(once, bits), once)
    largest = quantise(once, bits)[0].abs().amax(dim=1)
    assert largest.eq(2 ** (bits - 1) - 1).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_no_value_moves_by_more_than_half_a_step(bits):
    matrix = torch.randn(500, 30)
    steps = matrix.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
    moved = (fake_quantise(matrix, bits) - matrix).abs() / steps
    assert 0.45 < moved.max() < 0.503  # a step is up to 2^-8 longer than without rounding it


def test_other_tensors_keep_float16():
    bias = torch.tensor([1.0001, -0.3, 0.0])
    assert torch.equal(fake_quantise(bias, 4), bias.half().float())
    assert fake_quantise(bias.double(), 4).dtype == torch.float64


@pytest.mark.parametrize("bits, number", [(8, 5), (4, 5), (4, 6), (4, 0)])
def test_bytes(bits, number):
    n = 2 ** (bits - 1) - 1
    codes = torch.randint(-n, n + 1, (number,), dtype=torch.int8)
    data = pack(codes, bits)
    assert data.dtype == torch.uint8 and data.numel() == math.ceil(number * bits / 8)
    assert torch.equal(unpack(data, bits, number), codes)


def test_two_values_a_byte():
    assert pack(torch.tensor([-7, 7, 0], dtype=torch.int8), 4).tolist() == [0xF1, 0x08]


def test_other_bits_are_refused():
    with pytest.raises(UserError, match="--quantised-bits 5: give 8 or 4"):
        check_bits(5, "--quantised-bits")
