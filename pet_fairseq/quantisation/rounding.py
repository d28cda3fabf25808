"""Rounding to few bits: each row of a matrix to a grid of its own, everything else to float16.

A row w becomes s k: integers |k| <= n = 2^(bits - 1) - 1 and a scale s = max |w| / n, rounded to
bfloat16. Rounding the scale moves a value by less than half a step; a scale takes 2 bytes in a
file, and every s k is exact in float32. So a matrix on its grid does not change if it is rounded
again.
"""

import torch
from torch import Tensor

from pet_fairseq.errors import UserError

BITS = (8, 4)


def check_bits(bits: int, option: str) -> None:
    """Raise UserError unless there is a grid of this number of bits."""
    if bits not in BITS:
        raise UserError(f"{option} {bits}: give {' or '.join(map(str, BITS))}")


def largest_code(bits: int) -> int:
    return 2 ** (bits - 1) - 1


def quantise(matrix: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The integers and scales that stand for a matrix.

    Args:
        matrix: [rows, columns].
    Returns:
        codes [rows, columns], int8, from -n to n; scales [rows, 1], bfloat16, 0 for a row of zeros.
    """
    n = largest_code(bits)
    scales = (matrix.abs().amax(dim=1, keepdim=True) / n).bfloat16()
    steps = scales.to(matrix.dtype).masked_fill(scales == 0, 1)
    return (matrix / steps).round().clamp(-n, n).to(torch.int8), scales


def dequantise(codes: Tensor, scales: Tensor) -> Tensor:
    """The matrix that codes and scales stand for, exact in float32."""
    return codes.float() * scales.float()


def fake_quantise(tensor: Tensor, bits: int) -> Tensor:
    """The nearest values that a file with `bits` a weight holds, in the tensor's dtype.

    Matrices are rounded to their grid, all other tensors, such as biases and norms, to float16.
    """
    values = dequantise(*quantise(tensor, bits)) if tensor.dim() == 2 else tensor.half()
    return values.to(tensor.dtype)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes as bytes: one a byte, or with 4 bits two a byte, the first in the lower half.

    Args:
        codes: [number], int8.
    Returns:
        [number] or [(number + 1) // 2], uint8.
    """
    if bits == 8:
        return codes.view(torch.uint8)
    halves = torch.nn.functional.pad((codes + 8).to(torch.uint8), (0, codes.numel() % 2))
    return halves[0::2] | halves[1::2] << 4


def unpack(data: Tensor, bits: int, number: int) -> Tensor:
    """The first `number` codes in bytes that `pack` made: [number], int8."""
    if bits == 4:
        data = torch.stack([data & 15, data >> 4], dim=1).flatten() - 8
    return data[:number].view(torch.int8)
