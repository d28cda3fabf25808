"""Multiply-adds, counted while a model runs."""

from collections.abc import Callable

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def multiply_adds_of(run: Callable[[], object]) -> int:
    """Multiply-adds of the matrix products and of attention while `run` is called.

    torch has no formula for the fused attention of the CPU and would count 0, so attention is
    computed as two matrix products meanwhile.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2
