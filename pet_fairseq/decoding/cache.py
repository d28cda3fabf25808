"""The keys and values of earlier steps, and which of them each beam may see.

Slots are numbered in the order in which they are written: one for the first step, R for every
later one, in the order of the beams. B sentences, H heads, R beams, K slots, D width of a head.
"""

import math
from typing import Optional

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values of one layer, 2 x B x H x K x D, which grow and stay where they are.

    The first step allocates `expected` slots; only beyond these are all of them copied to a larger
    buffer.
    """

    def __init__(self, expected: int):
        self.expected = expected
        self.used = 0
        self._buffer = torch.empty(0, 0, 0)  # then 2 x B x K x H x D: a step's slots are contiguous

    @property
    def filled(self) -> Tensor:
        return self._buffer[:, :, : self.used].transpose(2, 3)

    def append(self, new: Tensor) -> Tensor:
        """Write 2 x B x H x R x D behind the filled slots and return all of them."""
        new = new.transpose(2, 3)
        end = self.used + new.size(2)
        if end > self._buffer.size(2):
            buffer = new.new_empty(*new.shape[:2], max(self.expected, 2 * end), *new.shape[3:])
            if self.used:
                buffer[:, :, : self.used] = self._buffer[:, :, : self.used]
            self._buffer = buffer
        self._buffer[:, :, self.used : end] = new
        self.used = end
        return self.filled

    def keep(self, sentences: Tensor) -> None:
        """Forget the other sentences; those kept move to the front of the buffer."""
        kept = self._buffer[:, :, : self.used].index_select(1, sentences)
        self._buffer = self._buffer[:, : len(sentences)]
        self._buffer[:, :, : self.used] = kept


class Visibility:
    """Which slots each beam descends from, as a bias for attention: 0, or -inf if it does not."""

    def __init__(self):
        self.bias: Optional[Tensor] = None  # B x 1 x R x K; None while every slot is visible

    def extend(self, batch: int, num_beams: int, like: Tensor) -> None:
        """Add a step: every beam sees its own new slot only, beside what it saw before.

        Args:
            batch: B. num_beams: R. like: a tensor of the wanted dtype and device.
        """
        if num_beams == 1:
            return  # the only beam, or the first step: all that is there is its own
        own = like.new_full((num_beams, num_beams), -math.inf).fill_diagonal_(0)
        before = self.bias if self.bias is not None else like.new_zeros(batch, 1, num_beams, 1)
        self.bias = torch.cat([before, own.expand(batch, 1, num_beams, num_beams)], dim=-1)

    def follow(self, beams: Tensor, kept: Optional[Tensor]) -> None:
        """Go on with other beams; the arguments are those of `TransformerSteps.follow`."""
        if self.bias is None:
            return
        bias = self.bias if kept is None else self.bias.index_select(0, kept)
        index = beams[:, None, :, None].expand(-1, -1, -1, bias.size(-1))
        self.bias = bias.gather(2, index)
