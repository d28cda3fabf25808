"""The choice of texts that run together in a batch."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

# tokens of a sentence for CTranslate2, which would cut here itself, with the end of the sentence
MAX_SOURCE = 1023
MAX_LENGTH = 200  # words of a translation, as fairseq-generate's --max-len-b


def batch_size(lengths: Iterable[int], max_tokens: int) -> int:
    """How many of the next texts run together: at least one, more while they fit with padding.

    Args:
        lengths: of the next texts, one or more.
        max_tokens: of a batch: how many texts it has, times the longest of them.
    """
    longest = size = 0
    for length in lengths:
        longest = max(longest, length)
        if size and longest * (size + 1) > max_tokens:
            break
        size += 1
    return size


def batches_by_length(lengths: list[int], max_tokens: int) -> list[list[int]]:
    """The indices of texts in batches of similar lengths, the short ones first."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return batches_in_order(order, lengths, max_tokens)


def batches_in_order(
    order: Sequence[int], lengths: Sequence[int], max_tokens: int
) -> list[list[int]]:
    """The indices of texts in batches, as many together as fit.

    Args:
        order: the indices in the order in which they are to run. lengths: of all texts.
    """
    batches, start = [], 0
    while start < len(order):
        size = batch_size((lengths[i] for i in islice(order, start, None)), max_tokens)
        batches.append(list(order[start : start + size]))
        start += size
    return batches


class BatchLimit(NamedTuple):
    """How large a batch may be: in tokens with padding, or in texts."""

    size: int
    counts_tokens: bool = True

    def batches(self, lengths: list[int]) -> list[list[int]]:
        """The indices of texts in batches of similar lengths, the short ones first."""
        if self.counts_tokens:
            return batches_by_length(lengths, self.size)
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        return batches_in_order(order, [1] * len(lengths), self.size)


def batch_around_first(lengths: list[int], max_tokens: int) -> list[int]:
    """The indices of the first text and of those nearest to it in length, in their order."""
    order = sorted(range(len(lengths)), key=lambda i: abs(lengths[i] - lengths[0]))
    return sorted(order[: batch_size((lengths[i] for i in order), max_tokens)])


def source_room(positions: int, around: int) -> int:
    """The most tokens of a source that a model reads in CTranslate2.

    That cuts what is longer than MAX_SOURCE and an end, the end with it.

    Args:
        positions: of the model. around: tokens that stand around a source; an end does at least.
    """
    return min(positions, MAX_SOURCE + 1) - max(1, around)
