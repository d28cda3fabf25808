"""One step of beam search, as pure functions: what to choose from, what ends, what goes on.

B sentences, R beams of each, K candidates, T tokens so far with the start symbol, V words.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Optional

import torch
from torch import Tensor

GROUP = 128  # words in a group of `top_by_groups`


class Beams(NamedTuple):
    """The hypotheses in progress."""

    sentences: Tensor  # B, their indices in the batch
    tokens: Tensor  # B x R x T
    totals: Tensor  # B x R x (T - 1), sum of log-probabilities up to each token
    ignored: Tensor  # B x R, True where there is no hypothesis

    @property
    def step(self) -> int:
        return self.totals.size(2)

    def select(self, sentences) -> "Beams":
        """The hypotheses of some sentences, by a slice or an index."""
        return Beams(*(x[sentences] for x in self))


class Candidates(NamedTuple):
    """Continuations of each sentence's beams, best first; B x K each."""

    totals: Tensor
    words: Tensor
    beams: Tensor


def first_beams(sentences: int, beam_size: int, start: int, device: torch.device) -> Beams:
    """The hypotheses before the first step: the start symbol alone, in every beam."""
    return Beams(
        torch.arange(sentences, device=device),
        torch.full((sentences, beam_size, 1), start, device=device),
        torch.zeros(sentences, beam_size, 0, device=device),
        torch.zeros(sentences, beam_size, dtype=torch.bool, device=device),
    )


def average_ensemble(lprobs: Sequence[Tensor]) -> Tensor:
    """The log of the mean probability, from log-probabilities of each model."""
    if len(lprobs) == 1:
        return lprobs[0]
    return torch.logsumexp(torch.stack(tuple(lprobs)), dim=0) - math.log(len(lprobs))


def ban_repeated_ngrams(lprobs: Tensor, tokens: Tensor, size: int, pad: int) -> None:
    """Write -inf, in place, for every word that would repeat an n-gram of its hypothesis.

    Args:
        lprobs: B x R x V; tokens: B x R x T; size: n; pad: a word that is never chosen anyway.
    """
    if size == 1:
        tokens = tokens[:, :, 1:]  # the start symbol is not a word
    if tokens.size(2) < size:
        return
    ngrams = tokens.unfold(2, size, 1)  # B x R x W x n
    last = tokens[:, :, None, tokens.size(2) - size + 1 :]  # the n - 1 words before
    repeats = (ngrams[..., :-1] == last).all(-1)
    lprobs.scatter_(2, torch.where(repeats, ngrams[..., -1], pad), -math.inf)


def repeats_ngram(tokens: Tensor, size: int, pad: int) -> Tensor:
    """Whether `ban_repeated_ngrams` would ban a word of a text: B.

    Args:
        tokens: B x T, padded on the right, with the start symbol; size: n.
    """
    if size == 1:
        tokens = tokens[:, 1:]
    if tokens.size(1) < size:
        return tokens.new_zeros(len(tokens), dtype=torch.bool)
    ngrams = tokens.unfold(1, size, 1)  # B x W x n
    same = (ngrams[:, :, None] == ngrams[:, None]).all(-1).tril(-1)
    return (same & ngrams.ne(pad).all(-1)[:, None]).flatten(1).any(dim=1)


def best_candidates(lprobs: Tensor, totals: Optional[Tensor], count: int) -> Candidates:
    """The most probable continuations of each sentence; NaN counts as a probability of 0.

    Args:
        lprobs: B x R x V, may be overwritten; totals: B x R, sums of the beams' log-probabilities,
        None for zeros; count: K, at most one fewer than all, as padding is never chosen.
    """
    _, num_beams, words = lprobs.shape
    if totals is None:
        totals = lprobs.new_zeros(lprobs.shape[:2])
    count = min(count, num_beams * words - 1)
    if lprobs.device.type != "cpu":  # here a look for NaN would wait for the device
        best, indices = top(lprobs.nan_to_num_(-math.inf, math.inf, -math.inf), totals, count)
    else:
        best, indices = top_by_groups(lprobs, totals, count)
        if best.isnan().any():
            lprobs.masked_fill_(lprobs.isnan(), -math.inf)
            best, indices = top_by_groups(lprobs, totals, count)
    return Candidates(best, indices % words, indices // words)


def top(lprobs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest sums of a beam's total and a word's log-probability, and their flat indices.

    Args:
        lprobs: B x R x V; totals: B x R.
    Returns:
        B x count each; an index is beam x V + word.
    """
    return (lprobs + totals[:, :, None]).flatten(1).topk(count)


def top_by_groups(lprobs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """What `top` gives, ties included, but faster on a CPU.

    The greatest sums are in the groups of words with the greatest maxima, so only the words of
    these groups are ranked. Equal sums could come in another order: then `top` does the work. NaN
    ranks among the greatest.
    """
    batch, num_beams, words = lprobs.shape
    groups = words // GROUP
    if num_beams * groups <= 16 * count:  # too few to gain by it
        return top(lprobs, totals, count)
    grouped = lprobs[:, :, : groups * GROUP].unflatten(2, (groups, GROUP))
    maxima = grouped.amax(-1).add_(totals[:, :, None]).flatten(1)
    chosen = maxima.topk(count + 1).indices
    first = chosen // groups * words + chosen % groups * GROUP

    def from_each(starts: Tensor, number: int) -> Tensor:
        return (starts[..., None] + torch.arange(number, device=starts.device)).flatten(-2)

    members = from_each(first, GROUP)
    beam_ends = torch.arange(1, num_beams + 1, device=first.device) * words
    left = words % GROUP  # at the end of a beam's words, too few for a group
    indices = torch.cat([members, from_each(beam_ends - left, left).expand(batch, -1)], dim=1)
    sums = lprobs.flatten(1).gather(1, indices) + totals.gather(1, indices // words)
    best, ranked = sums.topk(count + 1)
    ties = (best[:, 1:] == best[:, :-1]) & best[:, 1:].ne(-math.inf)
    if ties.any():
        return top(lprobs, totals, count)
    return best[:, :count], indices.gather(1, ranked[:, :count])


def find_ends(candidates: Candidates, ignored: Tensor, eos: int) -> Tensor:
    """Which candidates end a hypothesis: B x K.

    As in fairseq, those at ignored places among the first R do not.
    """
    ends = candidates.words.eq(eos) & candidates.totals.ne(-math.inf)
    ends[:, : ignored.size(1)] &= ~ignored
    return ends


def extend(beams: Beams, candidates: Candidates, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens B x N x (T + 1), totals B x N x T and parents B x N of chosen candidates (B x N)."""
    parents = candidates.beams.gather(1, chosen)
    words, totals = candidates.words.gather(1, chosen), candidates.totals.gather(1, chosen)

    def append(history: Tensor, new: Tensor) -> Tensor:
        index = parents[:, :, None].expand(-1, -1, history.size(2))
        return torch.cat([history.gather(1, index), new[:, :, None]], dim=2)

    return append(beams.tokens, words), append(beams.totals, totals), parents


def continue_beams(beams: Beams, candidates: Candidates, ends: Tensor) -> tuple[Beams, Tensor]:
    """The best R candidates that do not end, and the beams that they continue (B x R).

    Where fewer are left, ended ones fill up the R and are ignored from then on.
    """
    beam_size = beams.ignored.size(1)
    excluded = ends.clone()
    excluded[:, :beam_size] |= beams.ignored
    indices = torch.arange(excluded.size(1), device=excluded.device)
    rank, chosen = torch.topk(excluded * 2 * beam_size + indices, beam_size, largest=False)
    tokens, totals, parents = extend(beams, candidates, chosen)
    return Beams(beams.sentences, tokens, totals, rank >= 2 * beam_size), parents
