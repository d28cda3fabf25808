"""Values that a few bits hold: matrices on a grid for each row, everything else in float16.

A row w becomes s k: integers |k| <= n = 2^(bits - 1) - 1 and a scale s = max |w| / n, rounded to
bfloat16. That rounding moves a value by less than half a step, costs 2 bytes a row in a file, and
makes every s k exact in float32. So what is on the grid stays as it is when it is put there again.
"""

import torch
from torch import Tensor

from pet_fairseq.errors import UserError

BITS = (8, 4)


def check_bits(bits: int, option: str) -> None:
    """Raises UserError if there is no grid of so many bits."""
    if bits not in BITS:
        raise UserError(f"{option} {bits}: give {' or '.join(map(str, BITS))}")


def largest_code(bits: int) -> int:
    return 2 ** (bits - 1) - 1


def encode(matrix: Tensor, bits: int) -> tuple[Tensor, Tensor]:
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


def decode(codes: Tensor, scales: Tensor) -> Tensor:
    """The matrix that codes and scales stand for, exact in float32."""
    return codes.float() * scales.float()


def storable(tensor: Tensor, bits: int) -> Tensor:
    """The nearest values that a file of so many bits holds, in the tensor's dtype.

    Matrices are put on their grid; of all other tensors, such as biases and norms, float16 is kept.
    """
    values = decode(*encode(tensor, bits)) if tensor.dim() == 2 else tensor.half()
    return values.to(tensor.dtype)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes as bytes: one a byte, or with 4 bits two, the first one in the lower half.

    Args:
        codes: [number], int8. Returns: [number] or [(number + 1) // 2], uint8.
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
