"""The division of prompts into pieces (SelfCP, section 3.1): pure functions of lengths.

N tokens of prompt, a window of L. Up to L nothing is compressed, but in training half of the prompt
is. Up to 2 L half of the prompt is; beyond, all but L tokens, in segments of at most L that are
compressed independently.
"""

import math
from itertools import pairwise
from typing import NamedTuple

from pet_fairseq.errors import UserError

ROUNDING = 1e-12  # 15 / (15 / 13) is a little more than 13 in floating point
HALVES = ("auto", "former", "latter")
# baselines that keep as many tokens as `former` reads, memory tokens included
EQUAL_BUDGET = {
    "truncate_equal": "truncate",
    "truncate_latter_equal": "truncate_latter",
    "perplexity_equal": "perplexity",
}
STRATEGIES = (
    *(*HALVES, "concat"),
    *("recursive", "truncate", "truncate_latter", "perplexity", "full"),  # baselines
    *EQUAL_BUDGET,
)
AT_ANY_RATIO = ("truncate", "truncate_latter", "perplexity", "full")  # they read the same
WITHOUT_MEMORY = (*AT_ANY_RATIO, *EQUAL_BUDGET)
SEGMENTS_FROM = ("own", "other")  # the prompt whose segments become a prompt's memory


def check_strategy(strategy: str) -> None:
    """Raise UserError for a strategy that does not exist."""
    if strategy not in STRATEGIES:
        raise UserError(f"--prompt-strategy {strategy}: give one of {', '.join(STRATEGIES)}")


class Piece(NamedTuple):
    """Tokens [start, stop) of a prompt, as they are or as memory tokens."""

    start: int
    stop: int
    compressed: bool

    @property
    def length(self) -> int:
        return self.stop - self.start


def memory_length(length: int, ratio: float) -> int:
    """Memory tokens for a segment: ceil(length / ratio)."""
    return math.ceil(length / ratio * (1 - ROUNDING))


def tokens_kept(length: int, window: int, strategy: str, ratio: float, longest: int = 0) -> int:
    """Tokens that a baseline may keep of a prompt: L, or for `..._equal` what `former` reads."""
    if strategy not in EQUAL_BUDGET:
        return window
    pieces = split_prompt(length, window, "former", ratio, longest=longest)
    return sum(memory_length(p.length, ratio) if p.compressed else p.length for p in pieces)


def split_prompt(
    length: int,
    window: int,
    strategy: str,
    ratio: float,
    halve_short: bool = False,
    longest: int = 0,
) -> list[Piece]:
    """The pieces of a prompt in their order; tokens in none of them are dropped.

    former: the first half is compressed (beyond 2 L: all but the last L tokens).
    latter: the second half is (beyond 2 L: all but the first L tokens).
    auto: former, if the caller does not choose for each prompt, as training does.
    concat: always all but the last L tokens. recursive: the same; each segment also reads the
    memory of those before. truncate: the last L tokens only. truncate_latter: the first L only.
    full, perplexity: the whole prompt, which for perplexity is then thinned out to L tokens.
    truncate_equal, truncate_latter_equal, perplexity_equal: with `tokens_kept` in the place of L.

    Args:
        length: N; window: L, 1 or more; ratio: tokens for one memory token.
        halve_short: whether former, latter and auto halve prompts of up to L tokens, too.
        longest: tokens of a segment; 0: L, as in the paper.
    Raises:
        UserError: no such strategy.
    """
    check_strategy(strategy)
    if length == 0:
        return []
    kind = EQUAL_BUDGET.get(strategy, strategy)
    if halve_short and 1 < length <= window and strategy in HALVES:
        window = length // 2 + length % 2
    longest = longest or window
    if length <= window or kind in ("full", "perplexity"):
        return [Piece(0, length, False)]
    if kind in ("truncate", "truncate_latter"):
        kept = tokens_kept(length, window, strategy, ratio, longest)
        return [
            Piece(length - kept, length, False) if kind == "truncate" else Piece(0, kept, False)
        ]
    half = length // 2
    kept = length - half if length <= 2 * window and strategy in HALVES else window
    if strategy == "latter":
        return [Piece(0, kept, False), *cut_evenly(kept, length, longest)]
    return [*cut_evenly(0, length - kept, longest), Piece(length - kept, length, False)]


def cut_evenly(start: int, stop: int, longest: int) -> list[Piece]:
    """The fewest segments of at most `longest` tokens, of lengths that differ by one at most.

    With all but L of N tokens to compress, and segments of L, these are ceil((N - L) / L) =
    ceil(N / L - 1).
    """
    number = math.ceil((stop - start) / longest)
    ends = [start + (stop - start) * i // number for i in range(number + 1)]
    return [Piece(a, b, True) for a, b in pairwise(ends)]
