"""Vectors in place of tokens in a frozen language model (SelfCP, section 3.1).

fairseq's decoder takes tokens. Where a vector is wanted there is some token, and a hook on the
embedding puts the vector in its place, so that positions, masks and layers are fairseq's own.
"""

from contextlib import contextmanager
from typing import Iterator, List, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from pet_fairseq.hooks import forward_hooks


class Rows(NamedTuple):
    """What a language model reads, rows padded on the right."""

    tokens: Tensor  # B x T
    places: Tensor  # B x T, True = a vector stands there
    vectors: Tensor  # N x C, row by row, as the first layer sees them but for the position
    lengths: Tensor  # B


def lay_out(rows: Sequence[Sequence[Tensor]], padding_idx: int, placeholder: int) -> Rows:
    """Put the parts of each row one after another.

    Args:
        rows: of each, one or more parts: tokens (n) or vectors (n x C).
        placeholder: the token that stands where a vector is; not padding.
    """
    first = rows[0][0]
    vectors = [part for parts in rows for part in parts if part.dim() == 2]
    filled = [
        [p if p.dim() == 1 else first.new_full((len(p),), placeholder) for p in parts]
        for parts in rows
    ]
    tokens = [torch.cat(parts) for parts in filled]
    places = [torch.cat([first.new_full((len(p),), p.dim() == 2) for p in parts]) for parts in rows]
    pad = nn.utils.rnn.pad_sequence
    return Rows(
        pad(tokens, batch_first=True, padding_value=padding_idx),
        pad(places, batch_first=True).bool(),
        torch.cat(vectors) if vectors else torch.zeros(0, 1, device=first.device),
        first.new_tensor([len(row) for row in tokens]),
    )


@contextmanager
def vectors_in(decoder: nn.Module, rows: Rows) -> Iterator[None]:
    """Inside, the decoder reads the rows' vectors at their places."""

    def replace(module, inputs, output: Tensor) -> Tensor:
        scaled = (rows.vectors / decoder.embed_scale).to(output)
        return output.masked_scatter(rows.places[..., None], scaled)

    # without vectors nothing is touched
    hooks = [(decoder.embed_tokens, replace)] if len(rows.vectors) else []
    with forward_hooks(*hooks):
        yield


def last_states(decoder: nn.Module, rows: Rows) -> Tensor:
    """The last layer's output for every position: B x T x C."""
    with vectors_in(decoder, rows):
        return decoder(rows.tokens, features_only=True)[0]


def batches_of(lengths: Sequence[int], most_tokens: int) -> List[List[int]]:
    """Numbers of rows in batches of at most so many tokens, padding included; long rows first.

    A row that is longer than that is a batch of its own.
    """
    batches: List[List[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        # the first of a batch is its longest
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= most_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


# --- what is trained ------------------------------------------------------------------------------

CONNECTORS = ("linear", "linear_norm")


def make_connector(kind: str, width: int) -> nn.Module:
    """From the model's last states to vectors that it reads.

    linear: the paper's map, d x d with a bias. linear_norm: a layer norm after it, as in the
    released code.
    """
    linear = nn.Linear(width, width)
    return linear if kind == "linear" else nn.Sequential(linear, nn.LayerNorm(width))


def rarest_word(counts: Sequence[int], special: int) -> int:
    """The word with the lowest count above 0; `special`: how many symbols come before words."""
    used = [i for i in range(special, len(counts)) if counts[i] > 0]
    return min(used, key=lambda i: counts[i], default=special)
