"""Sums over tokens whose [tokens, vocabulary] tensors are made in chunks and never all at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional, TypeVar

import torch
from torch import Tensor

# elements of one [tokens, vocabulary] block: 64 MB in float32
CHUNK_ELEMENTS = 2**24
# on devices that report their free memory: bounds of a block, and how many float32 blocks would
# fill that memory (a chunk holds about ten blocks at its peak)
FEWEST_ELEMENTS, MOST_ELEMENTS = 2**20, 2**27
BLOCKS_IN_FREE_MEMORY = 64

ChunkSums = Callable[[Tensor, slice], Any]
Sums = TypeVar("Sums", bound=tuple[Tensor, ...])  # a named tuple with the loss first


# --- how large a chunk is -------------------------------------------------------------------------


def chunk_size(vocabulary: int, free_bytes: Optional[int] = None) -> int:
    """How many tokens a chunk may have.

    Args:
        free_bytes: of the device's memory; None where that is not known, as on the CPU.
    """
    return max(1, chunk_elements(free_bytes) // vocabulary)


def chunk_elements(free_bytes: Optional[int]) -> int:
    """Elements of one block: a power of two, so that a little more or less memory changes nothing.

    On a GPU large blocks save the time between kernels.
    """
    if free_bytes is None:
        return CHUNK_ELEMENTS
    share = max(1, free_bytes // (4 * BLOCKS_IN_FREE_MEMORY))
    return min(max(2 ** (share.bit_length() - 1), FEWEST_ELEMENTS), MOST_ELEMENTS)


class ChunkSize:
    """How many tokens a chunk has in a training run: chosen at the first batch, and then kept.

    By then model and optimizer have their memory; asking again for each batch would take time.
    """

    def __init__(self, vocabulary: int):
        self.vocabulary = vocabulary
        self.tokens: Optional[int] = None

    def on(self, device: torch.device) -> int:
        """The number of tokens, for a device that holds the features of the first batch."""
        if self.tokens is None:
            self.tokens = chunk_size(self.vocabulary, free_memory(device))
        return self.tokens


def free_memory(device: torch.device) -> Optional[int]:
    """Bytes that torch can still use on a device; None for a device that does not report it."""
    module = torch.get_device_module(device)
    if not hasattr(module, "mem_get_info"):
        return None
    unused = module.memory_reserved(device) - module.memory_allocated(device)
    return module.mem_get_info(device)[0] + unused


# --- sums and their gradients ---------------------------------------------------------------------


def chunked_sums(
    chunk_sums: Callable[[Tensor, slice], Sums],
    features: Tensor,
    parameters: Sequence[Tensor],
    chunk_tokens: int,
    kind: Callable[..., Sums],
) -> Sums:
    """`chunk_sums(features, all rows)`, computed and differentiated in chunks of rows.

    Args:
        chunk_sums: takes some rows of the features and their slice, returns their sums as a
            `kind`; may use `parameters` (and no other tensor that needs a gradient).
        features: N x C. parameters: every one takes part in the sums.
        kind: a named tuple with the loss first, which alone gets a gradient.
    """
    if not torch.is_grad_enabled():
        return kind(*sums_of_chunks(chunk_sums, features, chunk_tokens))
    function = GradientInBackward if computes_in_float16(features) else GradientInForward
    return kind(*function.apply(chunk_sums, chunk_tokens, features, *parameters))


class GradientInForward(torch.autograd.Function):
    """Sums over chunks of tokens, with the gradient taken chunk by chunk in the forward pass.

    No [tokens, vocabulary] tensor outlives its chunk, and nothing is computed twice: backward only
    multiplies the finished gradients by the incoming factor.
    """

    @staticmethod
    def forward(ctx, chunk_sums, chunk_tokens, features, *parameters):
        total, grads = sums_and_gradients(chunk_sums, chunk_tokens, features, parameters)
        ctx.save_for_backward(*grads)
        ctx.dtypes = [x.dtype for x in (features, *parameters)]
        ctx.mark_non_differentiable(*total[1:])
        return tuple(total)

    @staticmethod
    def backward(ctx, loss_grad, *_):
        grads = [(grad * loss_grad).to(dtype) for grad, dtype in zip(ctx.saved_tensors, ctx.dtypes)]
        return None, None, *grads


class GradientInBackward(torch.autograd.Function):
    """The losses for float16: backward, which knows the loss scale, computes each chunk again.

    The gradient of a logit is often so small (below about 3e-8) that float16 rounds it to 0. Taken
    in the forward pass, it would be lost before the loss scale could save it.
    """

    @staticmethod
    def forward(ctx, chunk_sums, chunk_tokens, features, *parameters):
        ctx.chunk_sums, ctx.chunk_tokens = chunk_sums, chunk_tokens
        ctx.save_for_backward(features, *parameters)
        ctx.autocast = autocast_as_now(features.device.type)
        total = sums_of_chunks(chunk_sums, features, chunk_tokens)
        ctx.mark_non_differentiable(*total[1:])
        return tuple(total)

    @staticmethod
    def backward(ctx, loss_grad, *_):
        features, *parameters = ctx.saved_tensors
        with ctx.autocast:
            grads = sums_and_gradients(
                ctx.chunk_sums, ctx.chunk_tokens, features, parameters, loss_grad
            )[1]
        return None, None, *(g.to(x.dtype) for g, x in zip(grads, (features, *parameters)))


def chunks(tokens: int, chunk_tokens: int) -> Iterator[slice]:
    """The rows of each chunk; one empty chunk where there are no tokens."""
    for start in range(0, max(tokens, 1), chunk_tokens):
        yield slice(start, start + chunk_tokens)


def sums_of_chunks(chunk_sums: ChunkSums, features: Tensor, chunk_tokens: int) -> list[Tensor]:
    """The sums over all chunks, without gradients."""
    total: list[Tensor] = []
    for rows in chunks(len(features), chunk_tokens):
        total = _add(total, chunk_sums(features[rows], rows))
    return total


def sums_and_gradients(
    chunk_sums: ChunkSums,
    chunk_tokens: int,
    features: Tensor,
    parameters: Sequence[Tensor],
    loss_grad: Optional[Tensor] = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """The sums, and the gradients of the loss for features and parameters times `loss_grad`."""
    feature_grad = torch.zeros_like(features)
    # float32 at least: thousands of tokens add up here
    grads = [
        torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32)) for p in parameters
    ]
    total: list[Tensor] = []
    for rows in chunks(len(features), chunk_tokens):
        with torch.enable_grad():
            chunk = features[rows].detach().requires_grad_()
            sums = chunk_sums(chunk, rows)
        of_features, *of_parameters = torch.autograd.grad(
            sums.loss, [chunk, *parameters], loss_grad
        )
        feature_grad[rows] = of_features
        for grad, of_chunk in zip(grads, of_parameters):
            grad += of_chunk
        total = _add(total, sums)
    return total, [feature_grad, *grads]


def _add(total: list[Tensor], sums: Sequence[Tensor]) -> list[Tensor]:
    """The first sums, where there is no total yet, or both added; without gradients."""
    detached = [value.detach() for value in sums]
    return [a + b for a, b in zip(total, detached)] if total else detached


# --- precision ------------------------------------------------------------------------------------


def computes_in_float16(features: Tensor) -> bool:
    """Whether logits of these features are in float16: by their dtype or under autocast."""
    device = features.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device) == torch.float16
    return features.dtype == torch.float16


def autocast_as_now(device: str) -> AbstractContextManager:
    """A context in which autocast is as it is at the call.

    Without its cache of parameters in half precision: torch 2.6 takes those that it made without
    gradients where gradients are wanted.
    """
    if not torch.is_autocast_enabled(device):
        return nullcontext()
    dtype = torch.get_autocast_dtype(device)
    return torch.autocast(device, dtype=dtype, cache_enabled=False)
