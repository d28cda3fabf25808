"""Which pairs of a source and its translation teach nothing, by their pieces alone."""

from collections.abc import Sequence
from typing import NamedTuple, Optional

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.predict.bad_lines import Bad

LONGEST_NGRAM = 4  # pieces of an n-gram whose repetition is looked for
MOST_REPEATS = 5  # how often an n-gram may stand in a row
FEW = 10  # pieces: up to this length any other side will do
MARKS = ("@@", SPACE)  # of pieces, which the two sides of a copy may have at other places


class Rules(NamedTuple):
    """What a translation has to be like.

    Attributes:
        longest: the most pieces of a translation: it is cut there.
        max_ratio: how many times as long as the other one a side may be, in pieces.
        copies: whether a translation may be its source, as within one language.
    """

    longest: int
    max_ratio: float
    copies: bool = False


def why_dropped(source: Sequence[str], target: Sequence[str], rules: Rules) -> Optional[Bad]:
    """What is wrong with a pair of pieces, None if nothing is."""
    if not target:
        return Bad.UNANSWERED
    if len(target) >= rules.longest:
        return Bad.ENDLESS
    if is_repetitive(target):
        return Bad.REPETITIVE
    if not rules.copies and letters(source) == letters(target):
        return Bad.COPIED
    return Bad.UNBALANCED if is_unbalanced(len(source), len(target), rules.max_ratio) else None


def is_repetitive(pieces: Sequence[str]) -> bool:
    """Whether an n-gram of up to LONGEST_NGRAM pieces stands more than MOST_REPEATS in a row."""
    for size in range(1, LONGEST_NGRAM + 1):
        equal = 0  # pieces in a row that are the ones `size` places before
        for piece, before in zip(pieces[size:], pieces):
            equal = equal + 1 if piece == before else 0
            if equal == size * MOST_REPEATS:
                return True
    return False


def letters(pieces: Sequence[str]) -> str:
    """The text of pieces, without spaces and the marks of pieces."""
    text = "".join(pieces)
    for mark in MARKS:
        text = text.replace(mark, "")
    return text


def is_unbalanced(source: int, target: int, max_ratio: float) -> bool:
    """Whether of two lengths in pieces one is too many times the other."""
    short, long = sorted((source, target))
    return long > FEW and long > max_ratio * short
