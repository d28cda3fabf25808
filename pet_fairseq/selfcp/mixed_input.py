"""Vectors in place of tokens in a frozen language model (SelfCP, section 3.1).

fairseq's decoder takes tokens. A placeholder token stands where a vector is wanted, and a hook on
the embedding puts the vector in its place, so that positions, masks and layers are fairseq's own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pet_fairseq.nn.hooks import forward_hooks

Parts = Sequence[Tensor]  # of one sequence, in order: tokens (n) or vectors (n x C)


class MixedInput(NamedTuple):
    """A batch of sequences of tokens and vectors, padded on the right unless a function says so."""

    tokens: Tensor  # B x T
    is_vector: Tensor  # B x T, True = the token only holds the place of a vector
    vectors: Tensor  # N x C, sequence by sequence, as the first layer sees them without positions
    lengths: Tensor  # B


def join_parts(sequences: Sequence[Parts], padding_idx: int, placeholder: int) -> MixedInput:
    """Build the input in which the parts of each sequence stand one after another.

    Args:
        sequences: one or more parts for each of the B sequences.
        placeholder: the token that stands where a vector is; not padding.
    """
    first = sequences[0][0].new_empty(0, dtype=torch.long)
    vectors = [part for parts in sequences for part in parts if part.dim() == 2]
    filled = [
        [p if p.dim() == 1 else first.new_full((len(p),), placeholder) for p in parts]
        for parts in sequences
    ]
    tokens = [torch.cat(parts) for parts in filled]
    is_vector = [
        torch.cat([first.new_full((len(p),), p.dim() == 2) for p in parts]) for parts in sequences
    ]
    pad = nn.utils.rnn.pad_sequence
    return MixedInput(
        pad(tokens, batch_first=True, padding_value=padding_idx),
        pad(is_vector, batch_first=True).bool(),
        torch.cat(vectors) if vectors else torch.zeros(0, 1, device=first.device),
        torch.tensor([len(row) for row in tokens]).to(first.device, non_blocking=True),
    )


def append_tokens(inputs: MixedInput, more: Tensor, padding_idx: int) -> MixedInput:
    """Return the input with further tokens (B x R, padded on the right) after each sequence."""
    time = inputs.tokens.size(1) + more.size(1)
    tokens = inputs.tokens.new_full((len(inputs.tokens), time), padding_idx)
    is_vector = inputs.is_vector.new_zeros(tokens.shape)
    tokens[:, : inputs.tokens.size(1)] = inputs.tokens
    is_vector[:, : inputs.is_vector.size(1)] = inputs.is_vector
    steps = torch.arange(more.size(1), device=tokens.device)
    tokens.scatter_(1, inputs.lengths[:, None] + steps, more)
    lengths = inputs.lengths + more.ne(padding_idx).sum(dim=1)
    return MixedInput(tokens, is_vector, inputs.vectors, lengths)


def pad_left(inputs: MixedInput) -> MixedInput:
    """Return the same sequences, padded on the left."""
    time = inputs.tokens.size(1)
    columns = torch.arange(time, device=inputs.tokens.device) + inputs.lengths[:, None]
    columns = columns % time  # what stood behind a sequence comes before it
    return inputs._replace(
        tokens=inputs.tokens.gather(1, columns), is_vector=inputs.is_vector.gather(1, columns)
    )


@contextmanager
def vectors_embedded(decoder: nn.Module, inputs: MixedInput) -> Iterator[None]:
    """Inside the block the decoder's embedding returns the input's vectors in their places."""

    def replace(module, args, output: Tensor) -> Tensor:
        scaled = (inputs.vectors / decoder.embed_scale).to(output)
        return output.masked_scatter(inputs.is_vector[..., None], scaled)

    # without vectors nothing is to be replaced
    hooks = [(decoder.embed_tokens, replace)] if len(inputs.vectors) else []
    with forward_hooks(*hooks):
        yield


def last_states(decoder: nn.Module, inputs: MixedInput) -> Tensor:
    """The last layer's output for every position: B x T x C."""
    with vectors_embedded(decoder, inputs):
        return decoder(inputs.tokens, features_only=True)[0]


def batch_by_tokens(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices of sequences in batches of at most `max_tokens`, padding included; longest first.

    A sequence that is longer than that is a batch of its own.
    """
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        # the first of a batch is its longest
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
