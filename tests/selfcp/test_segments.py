"""Segmentation: properties over random lengths, and lengths around the window by hand."""

import math
import random
from itertools import pairwise

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.segments import (
    EQUAL_BUDGET,
    STRATEGIES,
    Piece,
    memory_length,
    split_prompt,
)

CASES = [(n, window) for window in (1, 2, 7, 512) for n in (0, 1, window - 1, window, window + 1)]
CASES += [(n, w) for w in (1, 7, 512) for n in (2 * w - 1, 2 * w, 2 * w + 1, 3 * w, 3 * w + 1)]
CASES += [
    (random.Random(s).randrange(3000), random.Random(-s).randrange(1, 600)) for s in range(60)
]


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - set(EQUAL_BUDGET)))
def test_pieces(strategy):
    for length, window in CASES:
        check_pieces(length, window, strategy)


def check_pieces(length, window, strategy):
    pieces = split_prompt(length, window, strategy, 3)
    kept = [p for p in pieces if not p.compressed]
    compressed = [p for p in pieces if p.compressed]
    assert all(p.length > 0 for p in pieces)
    assert all(a.stop == b.start for a, b in pairwise(pieces))  # in order, without gaps
    if length == 0:
        assert pieces == []
    elif length <= window or strategy in ("full", "perplexity"):
        assert pieces == [Piece(0, length, False)]
    elif strategy == "truncate":
        assert pieces == [Piece(length - window, length, False)]
    elif strategy == "truncate_latter":
        assert pieces == [Piece(0, window, False)]
    else:
        assert pieces[0].start == 0 and pieces[-1].stop == length
        assert len(kept) == 1 and kept[0].length <= window
        assert all(p.length <= window for p in compressed)
        assert max(p.length for p in compressed) - min(p.length for p in compressed) <= 1
        assert (pieces[0] == kept[0]) == (strategy == "latter")
        halves = strategy in ("auto", "former", "latter") and length <= 2 * window
        assert kept[0].length == (math.ceil(length / 2) if halves else window)
        assert len(compressed) == (1 if halves else math.ceil(length / window - 1))


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("longest", [1, 7, 200])
def test_segments_of_another_length(strategy, longest):
    """The same tokens are kept; the others are in as few segments as that length allows."""
    for length, window in CASES:
        as_usual = split_prompt(length, window, strategy, 3)
        pieces = split_prompt(length, window, strategy, 3, longest=longest)
        if not strategy.endswith("_equal"):  # which keep as many tokens as there is memory
            assert [p for p in pieces if not p.compressed] == [
                p for p in as_usual if not p.compressed
            ]
        assert all(a.stop == b.start for a, b in pairwise(pieces))
        tokens = sum(p.length for p in pieces if p.compressed)
        assert tokens == sum(p.length for p in as_usual if p.compressed)
        lengths = [p.length for p in pieces if p.compressed]
        assert len(lengths) == math.ceil(tokens / longest)
        assert not lengths or max(lengths) <= min(longest, min(lengths) + 1)


def test_by_hand():
    assert split_prompt(9, 5, "former", 12) == [Piece(0, 4, True), Piece(4, 9, False)]
    assert split_prompt(9, 5, "latter", 12) == [Piece(0, 5, False), Piece(5, 9, True)]
    assert split_prompt(9, 5, "concat", 12) == [Piece(0, 4, True), Piece(4, 9, False)]
    three = [Piece(0, 4, True), Piece(4, 8, True), Piece(8, 13, False)]
    assert split_prompt(13, 5, "former", 12) == split_prompt(13, 5, "recursive", 12) == three
    latter = [Piece(0, 5, False), Piece(5, 9, True), Piece(9, 13, True)]
    assert split_prompt(13, 5, "latter", 12) == latter


def test_short_prompts_by_hand():
    def halved(length, strategy):
        return split_prompt(length, 5, strategy, 12, halve_short=True)

    assert halved(1, "former") == [Piece(0, 1, False)] and halved(0, "former") == []
    assert halved(2, "auto") == [Piece(0, 1, True), Piece(1, 2, False)]
    assert halved(5, "former") == [Piece(0, 2, True), Piece(2, 5, False)]
    assert halved(5, "latter") == [Piece(0, 3, False), Piece(3, 5, True)]
    assert halved(5, "concat") == [Piece(0, 5, False)]
    for length in (6, 9, 10, 11, 33):
        for strategy in STRATEGIES:
            assert halved(length, strategy) == split_prompt(length, 5, strategy, 12)


@pytest.mark.parametrize("ratio", [1, 2, 3.5, 12, 16])
def test_memory_length(ratio):
    for length in range(1, 50):
        number = memory_length(length, ratio)
        assert number * ratio >= length > (number - 1) * ratio


@pytest.mark.parametrize("ratio", [1, 2.5, 12, 64])
def test_equal_budgets(ratio):
    """Cut prompts have as many tokens as SelfCP reads, memory tokens included."""
    for length, window in CASES:
        read = {}
        for strategy in ("former", "latter"):
            pieces = split_prompt(length, window, strategy, ratio)
            memory = [math.ceil(p.length / ratio) for p in pieces if p.compressed]
            read[strategy] = sum(memory) + sum(p.length for p in pieces if not p.compressed)
        assert read["former"] == read["latter"] <= length
        cut = split_prompt(length, window, "truncate_equal", ratio)
        assert cut == ([Piece(length - read["former"], length, False)] if length else [])
        cut = split_prompt(length, window, "truncate_latter_equal", ratio)
        assert cut == ([Piece(0, read["former"], False)] if length else [])


def test_no_strategy_is_taken_for_another():
    with pytest.raises(UserError, match="--prompt-strategy half: give one of auto, former"):
        split_prompt(9, 5, "half", 12)
