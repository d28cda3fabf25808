"""Attention takes torch's fused kernels in half precision, also at widths they do not have."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from pet_fairseq.nn.attention import MultiheadAttention

pytestmark = pytest.mark.gpu

FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [22, 60, 64])
@pytest.mark.parametrize("masked", [False, True])
def test_fused(dtype, head_dim, masked):
    """Without the plain kernel; the fused ones alone raise where they cannot compute."""
    torch.manual_seed(1)
    attention = MultiheadAttention(88, 4, head_dim=head_dim).to("cuda", dtype)
    x = torch.randn(33, 5, 88, device="cuda", dtype=dtype, requires_grad=True)
    mask = torch.zeros(5, 33, dtype=torch.bool, device="cuda")
    mask[0, 20:] = masked
    padding = mask if masked else None

    def output():
        return attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]

    with sdpa_kernel(FUSED):
        fused = output()
        fused.float().square().sum().backward()
    assert x.grad.isfinite().all()
    with sdpa_kernel(SDPBackend.MATH):
        torch.testing.assert_close(fused, output(), atol=2e-2, rtol=2e-2)
