"""Multiply-adds counted while something runs, against those counted by hand."""

import pytest
import torch

from pet_fairseq.nn.attention import scaled_attention
from pet_fairseq.nn.multiply_adds import multiply_adds_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads, length, head_dim", [(1, 5, 8), (4, 64, 16)])
def test_attention_counts(heads, length, head_dim, dtype):
    """Queries by keys and weights by values, by whichever kernel torch would choose."""
    q, k, v = torch.randn(3, 2, heads, length, head_dim, dtype=dtype)
    counted = multiply_adds_of(lambda: scaled_attention(q, k, v, None, 0.0))
    assert counted == 2 * (2 * heads * length * length * head_dim)


def test_matrix_products_count():
    linear = torch.nn.Linear(3, 5)
    assert multiply_adds_of(lambda: linear(torch.zeros(7, 3))) == 7 * 3 * 5
