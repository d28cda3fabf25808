"""The plan of what is read of a batch of prompts: pure data, made from lengths alone."""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import NamedTuple, Optional

from pet_fairseq.selfcp.segments import Piece, memory_length, split_prompt


class Segment(NamedTuple):
    """A piece of a prompt that is compressed to memory tokens.

    The compressor reads it after the query; if it is recursive, also after the memory of the
    prompt's earlier pieces.
    """

    prompt: int  # index in the batch
    piece: int  # index among the prompt's pieces
    memory_tokens: int
    recursive: bool

    @property
    def pieces_read(self) -> slice:
        """The slice of the prompt's pieces that the compressor reads, this one last."""
        return slice(0 if self.recursive else self.piece, self.piece + 1)


class ReadingPlan(NamedTuple):
    """The pieces that are read of each prompt, and the order in which segments are compressed."""

    pieces: list[list[Piece]]  # of each prompt, in their order
    rounds: list[list[Segment]]  # the segments of a round need only the memory of earlier rounds


def plan_reading(
    lengths: Sequence[int],
    window: int,
    strategies: Sequence[str],
    ratios: Sequence[float],
    halve_short: bool = False,
    longest: int = 0,
) -> ReadingPlan:
    """Plan the reading of prompts.

    Args:
        lengths: tokens of each prompt; window: L, tokens up to which nothing is compressed.
        strategies: one of segments.STRATEGIES for each prompt.
        ratios: tokens for one memory token, for each prompt.
        halve_short, longest: as for `split_prompt`.
    """
    prompts = zip(lengths, strategies, ratios)
    pieces = [
        split_prompt(length, window, strategy, ratio, halve_short, longest)
        for length, strategy, ratio in prompts
    ]
    segments = [
        Segment(i, k, memory_length(piece.length, ratios[i]), strategies[i] == "recursive")
        for i, prompt_pieces in enumerate(pieces)
        for k, piece in enumerate(prompt_pieces)
        if piece.compressed
    ]
    ordered = sorted(segments, key=round_of)  # stable: prompt by prompt within a round
    return ReadingPlan(pieces, [list(group) for _, group in groupby(ordered, key=round_of)])


def round_of(segment: Segment) -> int:
    """The number of the round in which a segment is compressed."""
    return segment.piece if segment.recursive else 0


def choose_strategies(strategy: str, latter: Optional[Sequence[bool]], number: int) -> list[str]:
    """The strategy for each of `number` prompts.

    Args:
        latter: for `auto`, whether each prompt's latter part is compressed, as training draws it;
            None where nothing is drawn.
    """
    if strategy != "auto" or latter is None:
        return [strategy] * number
    return ["latter" if chosen else "former" for chosen in latter]


def lengths_read(
    length: int,
    window: int,
    strategy: str,
    ratio: float,
    longest: int = 0,
    halve_short: bool = False,
) -> tuple[int, int]:
    """How much is read of a prompt, in tokens and memory tokens: in its place, and to compress it.

    Args:
        length, window, strategy, ratio, longest, halve_short: as for `split_prompt`.
    Returns:
        what the reader has in the prompt's place; the most that the compressor reads at once: a
        segment, its memory tags and, if it is recursive, the memory of those before.
    """
    pieces = split_prompt(length, window, strategy, ratio, halve_short, longest)
    kept = sum(p.length for p in pieces if not p.compressed)
    segments = [p.length for p in pieces if p.compressed]
    memory = [memory_length(n, ratio) for n in segments]
    # a recursive segment is read after the memory of those before it
    beside = list(accumulate(memory)) if strategy == "recursive" else memory
    return kept + sum(memory), max((n + m for n, m in zip(segments, beside)), default=0)


def fitting_ratio(
    length: int,
    window: int,
    strategy: str,
    ratio: float,
    room: int,
    compressor_room: int,
    longest: int = 0,
    halve_short: bool = False,
) -> float:
    """The ratio, or the smallest larger one with which a prompt fits; if none does, the largest.

    Args:
        length, window, strategy, longest, halve_short: as for `split_prompt`.
        room: tokens and memory tokens that may be read of the prompt. compressor_room: tokens of a
            segment, its memory tags and, if recursive, the memory before it that the compressor
            may read.
    """

    def fits(ratio: float) -> bool:
        read, compressed = lengths_read(length, window, strategy, ratio, longest, halve_short)
        return read <= room and compressed <= compressor_room

    pieces = split_prompt(length, window, strategy, ratio, halve_short, longest)
    segments = {piece.length for piece in pieces if piece.compressed}
    # the number of memory tokens changes where a segment gets one less
    larger = {n / m for n in segments for m in range(1, memory_length(n, ratio))}
    largest = max([ratio, *larger])
    return next((r for r in (ratio, *sorted(larger)) if fits(r)), largest)
