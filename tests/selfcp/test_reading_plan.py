"""Plans of what is read: by hand, and properties of plans for random batches; no model anywhere."""

import math
import random
from fractions import Fraction

import pytest

from pet_fairseq.selfcp.reading_plan import Segment, choose_strategies, fitting_ratio, plan_reading
from pet_fairseq.selfcp.segments import STRATEGIES, Piece, memory_length, split_prompt


def test_by_hand():
    """A window of 5: a prompt that fits, one of two halves, and one of two segments and a rest."""
    plan = plan_reading([3, 9, 13], 5, ["former", "latter", "concat"], [2.0, 2.0, 4.0])
    assert plan.pieces == [
        [Piece(0, 3, False)],
        [Piece(0, 5, False), Piece(5, 9, True)],
        [Piece(0, 4, True), Piece(4, 8, True), Piece(8, 13, False)],
    ]
    assert plan.rounds == [
        [Segment(1, 1, 2, False), Segment(2, 0, 1, False), Segment(2, 1, 1, False)]
    ]


def test_recursive_segments_wait_for_those_before_them():
    plan = plan_reading([13, 4, 18], 5, ["recursive"] * 3, [2.0, 2.0, 4.0])
    assert plan.rounds == [
        [Segment(0, 0, 2, True), Segment(2, 0, 1, True)],
        [Segment(0, 1, 2, True), Segment(2, 1, 1, True)],
        [Segment(2, 2, 2, True)],
    ]
    assert [list("abcd")[s.pieces_read] for s in (plan.rounds[2][0], Segment(0, 2, 1, False))] == [
        ["a", "b", "c"],
        ["c"],
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(5))
def test_every_compressed_piece_is_in_one_round(strategy, seed):
    draw = random.Random(seed)
    window = draw.randint(1, 20)
    lengths = [draw.randint(0, 100) for _ in range(6)]
    ratios = [draw.uniform(1, 9) for _ in lengths]
    plan = plan_reading(lengths, window, [strategy] * len(lengths), ratios)
    compressed = {}
    for i, length in enumerate(lengths):
        assert plan.pieces[i] == split_prompt(length, window, strategy, ratios[i])
        for k, piece in enumerate(plan.pieces[i]):
            if piece.compressed:
                compressed[i, k] = memory_length(piece.stop - piece.start, ratios[i])
    segments = [segment for some in plan.rounds for segment in some]
    assert {(s.prompt, s.piece): s.memory_tokens for s in segments} == compressed
    assert len(segments) == len(compressed)
    if strategy != "recursive":
        assert len(plan.rounds) <= 1
    for number, some in enumerate(plan.rounds):
        assert some == sorted(some)  # prompt by prompt
        assert strategy != "recursive" or {s.piece for s in some} == {number}


def test_nothing_to_read():
    assert plan_reading([0, 0], 5, ["former"] * 2, [2.0] * 2) == ([[], []], [])


def test_strategies():
    assert choose_strategies("auto", [True, False], 2) == ["latter", "former"]
    assert choose_strategies("auto", None, 3) == ["auto"] * 3
    assert choose_strategies("concat", [True, False], 2) == ["concat"] * 2


def test_as_many_memory_tokens_as_the_ratio_says():
    for length in range(1, 600):
        assert all(memory_length(length, length / n) == n for n in range(1, length + 1))
        assert all(memory_length(length, k) == -(-length // k) for k in (1, 2, 3, 7, 12, 64))
        assert memory_length(length, 1e15) == 1


def fit(pieces, memory_of, room, longest, recursive):
    """Whether pieces fit into the room, and each segment into what the compressor reads at once."""
    taken = before = 0
    for piece in pieces:
        if not piece.compressed:
            taken += piece.length
            continue
        memory = memory_of(piece.length)
        if (before if recursive else 0) + piece.length + memory > longest:
            return False
        before += memory
    return taken + before <= room


@pytest.mark.parametrize("strategy", ["former", "latter", "concat", "recursive"])
@pytest.mark.parametrize("seed", range(40))
def test_no_ratio_between_fits(strategy, seed):
    """Against all ratios at which any segment's memory can change, in exact numbers."""
    draw = random.Random(seed)
    length, window, ratio = draw.randint(0, 60), draw.randint(4, 20), draw.randint(1, 6)
    room, longest, segment = draw.randint(5, 40), draw.randint(8, 40), draw.choice([0, 30])

    def fits(ratio):
        pieces = split_prompt(length, window, strategy, ratio, longest=segment)
        return fit(pieces, lambda n: math.ceil(n / ratio), room, longest, strategy == "recursive")

    steps = {Fraction(n, m) for n in range(1, (segment or window) + 1) for m in range(1, n + 1)}
    fitting = [step for step in sorted({*steps, Fraction(ratio)}) if step >= ratio and fits(step)]
    found = fitting_ratio(length, window, strategy, ratio, room, longest, segment)
    if fitting:
        assert found == pytest.approx(float(fitting[0]), rel=1e-12)
    else:
        assert not fits(Fraction(found))


@pytest.mark.parametrize("strategy", ["former", "latter", "concat", "recursive"])
@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_ratio_that_fits(strategy, seed):
    draw = random.Random(seed)
    length, window, ratio = draw.randint(0, 200), draw.randint(4, 40), draw.uniform(1, 16)
    room, longest = draw.randint(20, 90), draw.randint(20, 60)

    def fits(ratio):
        pieces = split_prompt(length, window, strategy, ratio)
        return fit(
            pieces, lambda n: memory_length(n, ratio), room, longest, strategy == "recursive"
        )

    found = fitting_ratio(length, window, strategy, ratio, room, longest)
    ratios = [ratio + step / 50 for step in range(50 * 200)]
    if fits(ratio):
        assert found == ratio
    elif any(map(fits, ratios)):
        assert fits(found) and found == pytest.approx(next(filter(fits, ratios)), abs=0.03)
    else:
        assert not fits(found) and found >= ratio


def test_the_ratio_of_a_halved_prompt():
    """Of 10 tokens 5 are kept, and the others become as few as there is room for."""
    ratios = [fitting_ratio(10, 20, "auto", 2, room, 100, halve_short=True) for room in (8, 7, 6)]
    assert ratios == [2, 2.5, 5]
    assert fitting_ratio(10, 20, "auto", 2, 6, 100) == 2
