"""The pure parts of beam search against slow ones."""

import math
from itertools import product

import pytest
import torch

from pet_fairseq.decoding.beams import (
    GROUP,
    average_ensemble,
    ban_repeated_ngrams,
    best_candidates,
    top,
    top_by_groups,
)
from pet_fairseq.decoding.cache import KeyValueCache, Visibility


@pytest.mark.parametrize("width", [5, GROUP, 300 * GROUP, 300 * GROUP + 1, 301 * GROUP - 1])
@pytest.mark.parametrize("kind", ["distinct", "ties", "mostly -inf", "last ones", "equal"])
def test_groups_give_the_same(width, kind):
    for rows, count in product((1, 3), (1, 2, 16)):
        if count < rows * width:
            check_groups(rows, width, count, kind)


def check_groups(rows, width, count, kind):
    shape = (4, rows, width)
    lprobs = {
        "distinct": torch.randn(shape),
        "ties": torch.randint(0, 50, shape).float(),
        "mostly -inf": torch.full(shape, -math.inf),
        "last ones": torch.arange(4.0 * rows * width).view(shape),
        "equal": torch.zeros(shape),
    }[kind]
    if kind == "mostly -inf":
        lprobs[:, -1, width // 2] = 1
    totals = torch.zeros(4, rows) if kind == "equal" else torch.randn(4, rows).round()
    best, places = top_by_groups(lprobs, totals, count)
    expected, expected_places = top(lprobs, totals, count)
    assert torch.equal(best, expected)
    finite = best > -math.inf
    assert torch.equal(places[finite], expected_places[finite])


def test_groups_show_what_is_no_number():
    lprobs = torch.randn(2, 1, 300 * GROUP)
    lprobs[1, 0, 300] = math.nan
    best, _ = top_by_groups(lprobs, torch.zeros(2, 1), 4)
    assert best.isnan().any(dim=1).tolist() == [False, True]


@pytest.mark.parametrize("broken", [False, True])
def test_best_candidates(broken):
    """Against sorting all continuations; what is no number is never chosen."""
    lprobs, totals = torch.randn(3, 2, 7), torch.randn(3, 2)
    if broken:
        lprobs[1, 0, 2:] = math.nan
    found = best_candidates(lprobs.clone(), totals, 6)
    for sentence in range(3):
        continuations = [
            (float(lprobs[sentence, beam, word] + totals[sentence, beam]), word, beam)
            for beam in range(2)
            for word in range(7)
            if not lprobs[sentence, beam, word].isnan()
        ]
        expected = sorted(continuations, reverse=True)[:6]
        assert list(zip(*(x[sentence].tolist() for x in found))) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_ban_repeated_ngrams(size, length):
    words, pad = 5, 1
    tokens = torch.randint(2, words, (3, 2, length))
    lprobs = torch.zeros(3, 2, words)
    ban_repeated_ngrams(lprobs, tokens, size, pad)
    for sentence in range(3):
        for beam in range(2):
            have = tokens[sentence, beam].tolist()
            text = have[1:] if size == 1 else have  # a single start symbol is no word
            ngrams = {tuple(text[i : i + size]) for i in range(len(text) - size + 1)}
            for word in set(range(words)) - {pad}:
                ending = tuple([*have, word][len(have) + 1 - size :]) if len(have) >= size else None
                banned = lprobs[sentence, beam, word] == -math.inf
                assert banned == (ending in ngrams)


def test_average_ensemble():
    lprobs = [torch.randn(2, 3, 5, dtype=torch.float64).log_softmax(-1) for _ in range(3)]
    expected = sum(x.exp() for x in lprobs) / 3
    torch.testing.assert_close(average_ensemble(lprobs).exp(), expected)
    assert average_ensemble(lprobs[:1]) is lprobs[0]


def test_slots_grow_and_keep():
    slots, expected = KeyValueCache(9), torch.empty(2, 6, 2, 0, 3)
    for step in range(64):
        new = torch.randn(2, expected.size(1), 2, 1 if step == 0 else 4, 3)
        expected = torch.cat([expected, new], dim=3)
        assert torch.equal(slots.append(new), expected)
        if step in (3, 40):
            kept = torch.tensor([0, 2, 4, 5] if step == 3 else [1, 2])
            slots.keep(kept)
            expected = expected[:, kept]


def test_each_beam_sees_its_own_ancestors():
    """Against lists of slots that are handed down from beam to beam."""
    batch, beams = 3, 4
    visible = Visibility()
    visible.extend(batch, 1, torch.zeros(1))
    assert visible.bias is None
    seen = [[[0] for _ in range(beams)] for _ in range(batch)]
    used = 1
    for step in range(1, 6):
        parents = torch.randint(0, beams, (len(seen), beams))
        kept = None
        if step == 3:
            kept = torch.tensor([0, 2])
            seen, parents = [seen[0], seen[2]], parents[:2]
        visible.follow(parents, kept)
        seen = [[list(old[p]) for p in row] for old, row in zip(seen, parents.tolist())]
        visible.extend(len(seen), beams, torch.zeros(1))
        for sentence in seen:
            for beam in range(beams):
                sentence[beam].append(used + beam)
        used += beams
        slots = visible.bias[:, 0].eq(0)
        assert visible.bias.shape == (len(seen), 1, beams, used)
        assert [[x.nonzero().squeeze(1).tolist() for x in row] for row in slots] == seen
