"""The finished hypotheses of a batch, collected without waiting for the device."""

import math
from typing import Optional

import torch
from torch import Tensor


class Hypotheses:
    """The first R hypotheses of each sentence that end.

    Args:
        sentences, beam_size: how many sentences, and R, how many hypotheses of each.
        max_length: length of the longest hypothesis, with end-of-sentence.
        len_penalty: the exponent p of score / length^p; None leaves scores undivided.
    """

    def __init__(self, sentences: int, beam_size: int, max_length: int, len_penalty, device):
        self.beam_size = beam_size
        self.len_penalty = len_penalty
        # the last slot takes the hypotheses that end too late
        shape = (sentences, beam_size + 1)
        self.tokens = torch.zeros(*shape, max_length, dtype=torch.long, device=device)
        self.totals = torch.zeros(*shape, max_length, device=device)  # cumulative scores
        self.scores = torch.full(shape, -math.inf, device=device)
        self.lengths = torch.zeros(shape, dtype=torch.long, device=device)
        self.counts = torch.zeros(sentences, dtype=torch.long, device=device)

    def add(
        self,
        sentences: Tensor,
        ended: Tensor,
        tokens: Tensor,
        totals: Tensor,
        valid: Optional[Tensor],
    ) -> None:
        """Keep candidates that have ended, in their order, up to R of a sentence.

        Args:
            sentences: B, indices in the batch; ended: B x R, which candidates have ended; tokens:
            B x R x T with end-of-sentence; totals: B x R x T, the sum of log-probabilities up to
            each token; valid: B, False where a hypothesis of this length scores -inf; None if
            every length is valid.
        """
        length, totals = tokens.size(2), totals.float()
        order = self.counts[sentences, None] + ended.cumsum(1) - 1
        slot = torch.where(ended & (order < self.beam_size), order, self.beam_size)
        at = (sentences[:, None], slot)
        score = totals[:, :, -1]
        if self.len_penalty is not None:
            score = score / length**self.len_penalty
        if valid is not None:
            score = score.masked_fill(~valid[:, None], -math.inf)
        self.scores[at] = score
        self.lengths[at] = length
        self.tokens[:, :, :length][at] = tokens
        self.totals[:, :, :length][at] = totals
        self.counts[sentences] = (order[:, -1] + 1).clamp(max=self.beam_size)

    def is_full(self, sentences: Tensor) -> Tensor:
        return self.counts[sentences] == self.beam_size

    def best_first(self) -> list[list[dict[str, Tensor]]]:
        """For each sentence its hypotheses in fairseq's form, best first."""
        order_of_end = torch.arange(self.beam_size, device=self.scores.device)
        scores = self.scores[:, :-1].masked_fill(order_of_end >= self.counts[:, None], -math.inf)
        order = scores.sort(dim=1, descending=True, stable=True).indices
        # one copy from the device, for which the host waits once
        table = torch.cat([order, self.lengths, self.counts[:, None]], dim=1).tolist()
        size = self.beam_size
        # copies: what inference mode made must not be changed outside of it
        tokens, scores = self.tokens.clone(), self.scores.clone()
        positional = self.totals.clone()
        positional[:, :, 1:] -= self.totals[:, :, :-1]
        return [
            [
                {
                    "tokens": tokens[s, slot, : row[size + slot]],
                    "score": scores[s, slot],
                    "attention": torch.empty(0),
                    "alignment": torch.empty(0),
                    "positional_scores": positional[s, slot, : row[size + slot]],
                }
                for slot in row[:size]
                if slot < row[-1]
            ]
            for s, row in enumerate(table)
        ]
