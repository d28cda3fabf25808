"""Which pairs are dropped, compared with obvious loops over random pieces."""

import random

import pytest

from pet_fairseq.predict.bad_lines import Bad
from pet_fairseq.predict.corpus.filters import (
    Rules,
    is_repetitive,
    is_unbalanced,
    letters,
    why_dropped,
)


def repeats_somewhere(pieces: list[str]) -> bool:
    """Whether six equal n-grams of 1 to 4 pieces stand in a row anywhere."""
    return any(
        len(pieces) >= start + 6 * size
        and pieces[start : start + 6 * size] == pieces[start : start + size] * 6
        for size in (1, 2, 3, 4)
        for start in range(len(pieces))
    )


def test_repetition():
    draw = random.Random(1)
    found = {True: 0, False: 0}
    for _ in range(3_000):
        some = [draw.choice("ab") for _ in range(draw.randint(0, 12))]
        middle = [draw.choice("abc") for _ in range(draw.randint(1, 6))] * draw.randint(4, 7)
        pieces = [*some, *middle[draw.randint(0, 2) :], *map(str, range(draw.randint(0, 5)))]
        assert is_repetitive(pieces) == repeats_somewhere(pieces), pieces
        found[repeats_somewhere(pieces)] += 1
    assert min(found.values()) > 500


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a a a a a", False),
        ("a a a a a a", True),
        ("a b " * 5, False),
        ("x " + "a b c d " * 6, True),
    ],
)
def test_five_times_are_no_repetition(text, expected):
    assert is_repetitive(text.split()) is expected


def test_length_ratio():
    draw = random.Random(1)
    for _ in range(3_000):
        source, target = draw.randint(1, 60), draw.randint(1, 60)
        ratio = draw.choice([1, 1.5, 3, 4])
        absurd = (source > ratio * target or target > ratio * source) and max(source, target) > 10
        assert is_unbalanced(source, target, ratio) == absurd


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("ein Hund", "a dog", None),
        ("ein Hund", "", Bad.UNANSWERED),
        ("ein Hund", "b c d e f g h i j k", Bad.ENDLESS),
        ("ein Hund", "a a a a a a", Bad.REPETITIVE),
        ("B@@ er@@ lin", "Ber@@ lin", Bad.COPIED),
        ("\u2581Ber lin", "\u2581Berlin", Bad.COPIED),
        ("ein Hund und ein Mann und eine Frau , ja", "a b c", Bad.UNBALANCED),
    ],
)
def test_what_is_wrong_with_a_pair(source, target, expected):
    rules = Rules(longest=10, max_ratio=3)
    longer = source.split() + ["."] * (expected is Bad.UNBALANCED)
    assert why_dropped(longer, target.split(), rules) is expected


def test_copies_are_right_within_a_language():
    assert why_dropped(["a"], ["a"], Rules(9, 3)) is Bad.COPIED
    assert why_dropped(["a"], ["a"], Rules(9, 3, copies=True)) is None
    assert letters(["a@@", "b"]) == letters(["ab"]) != letters(["a@@", "c"])
