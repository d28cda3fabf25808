"""Sums over tokens whose [tokens, vocabulary] tensors are made in chunks and never all at once."""

from collections.abc import Callable, Sequence
from typing import Optional

import torch
from torch import Tensor

# elements of one [tokens, vocabulary] block: 64 MB in float32
CHUNK_ELEMENTS = 2**24

Sums = Sequence[Tensor]


class _ChunkedSums(torch.autograd.Function):
    """Sums over chunks of tokens, with the gradient taken chunk by chunk in the forward pass.

    No [tokens, vocabulary] tensor outlives its chunk, and nothing is computed twice: backward only
    multiplies the finished gradients by the incoming factor.
    """

    @staticmethod
    def forward(ctx, chunk_sums, chunk_tokens, features, *parameters):
        feature_grad = torch.zeros_like(features)
        # float32 at least: thousands of tokens add up here
        grads = [
            torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32))
            for p in parameters
        ]
        total = None
        for start in range(0, max(len(features), 1), chunk_tokens):
            rows = slice(start, start + chunk_tokens)
            with torch.enable_grad():
                chunk = features[rows].detach().requires_grad_()
                sums = chunk_sums(chunk, rows)
            of_features, *of_parameters = torch.autograd.grad(sums.loss, [chunk, *parameters])
            feature_grad[rows] = of_features
            for grad, of_chunk in zip(grads, of_parameters):
                grad += of_chunk
            total = _add(total, sums)
        ctx.save_for_backward(feature_grad, *grads)
        ctx.dtypes = [x.dtype for x in (features, *parameters)]
        ctx.mark_non_differentiable(*total[1:])
        return tuple(total)

    @staticmethod
    def backward(ctx, loss_grad, *_):
        grads = [(grad * loss_grad).to(dtype) for grad, dtype in zip(ctx.saved_tensors, ctx.dtypes)]
        return None, None, *grads


def _add(total: Optional[Sums], sums: Sums) -> Sums:
    sums = [value.detach() for value in sums]
    return sums if total is None else [a + b for a, b in zip(total, sums)]


def chunked_sums(
    chunk_sums: Callable[[Tensor, slice], Sums],
    features: Tensor,
    parameters: Sequence[Tensor],
    chunk_tokens: int,
    kind: type[Sums],
) -> Sums:
    """`chunk_sums(features, all rows)`, computed and differentiated in chunks of rows.

    Args:
        chunk_sums: takes some rows of the features and their slice, returns their sums as a
            `kind`; may use `parameters` (and no other tensor that needs a gradient).
        features: N x C. parameters: every one takes part in the sums.
        kind: a named tuple with the loss first, which alone gets a gradient.
    """
    if torch.is_grad_enabled():
        return kind(*_ChunkedSums.apply(chunk_sums, chunk_tokens, features, *parameters))
    total = None
    for start in range(0, max(len(features), 1), chunk_tokens):
        rows = slice(start, start + chunk_tokens)
        total = _add(total, chunk_sums(features[rows], rows))
    return kind(*total)


def chunk_size(vocabulary: int) -> int:
    """How many tokens a chunk may have so that no block holds more than CHUNK_ELEMENTS."""
    return max(1, CHUNK_ELEMENTS // vocabulary)
