"""Differences of BLEU and chrF against corpora that are put together sentence by sentence."""

import random

import numpy as np
import pytest
from fairseq.data.data_utils import post_process
from sacrebleu.metrics import BLEU, CHRF

from pet_fairseq.results import bleu
from pet_fairseq.results.bleu import (
    cached_bleu,
    cached_chrf,
    mean_score_difference,
    score_difference,
)
from pet_fairseq.results.fairseq_output import read_translations
from tests.byte_pieces import PIECES, TEXT


def test_pieces_of_bytes_become_characters(tmp_path):
    """fairseq-generate's --remove-bpe leaves them; those of ASCII may be text, and stay."""
    line = post_process(PIECES, "sentencepiece")
    assert "<0xC3>" in line
    (tmp_path / "output").write_text(f"H-0\t-1\t{line}\nD-0\t-1\t{line}\n")
    assert read_translations(tmp_path / "output") == [TEXT.replace("A", "<0x41>")]


def spoiled(lines, draw, share):
    """The lines with a share of their words replaced."""
    return [" ".join(w if draw.random() > share else "x" for w in line.split()) for line in lines]


@pytest.mark.parametrize("cached, plain", [(cached_bleu, BLEU), (cached_chrf, CHRF)])
def test_the_same_sentences_are_drawn_for_both(cached, plain, monkeypatch):
    monkeypatch.setattr(bleu, "BLEU_TEST_SAMPLES", 80)
    draw = random.Random(1)
    references = [" ".join(draw.choices("abcdefg", k=draw.randint(4, 12))) for _ in range(25)]
    ours, theirs = (spoiled(references, draw, share) for share in (0.1, 0.4))

    def score(texts, numbers):
        some, wanted = ([lines[i] for i in numbers] for lines in (texts, references))
        return plain().corpus_score(some, [wanted]).score

    numbers, samples = np.random.default_rng(1), []
    for _ in range(80):
        drawn = numbers.integers(25, size=25)
        samples.append(score(ours, drawn) - score(theirs, drawn))
    found = score_difference(cached(references), ours, theirs)
    assert found.mean == pytest.approx(score(ours, range(25)) - score(theirs, range(25)))
    assert found.low == pytest.approx(np.quantile(samples, 0.025))
    assert found.high == pytest.approx(np.quantile(samples, 0.975))
    assert found.p == 0 and found.low > 0


def test_the_same_translations_do_not_differ():
    lines = ["a b c d e", "f g h i", "k l m n o"]
    assert score_difference(cached_bleu(lines), lines[::-1], lines[::-1]) == (0, 0, 0, 1)


@pytest.mark.parametrize("cached, plain", [(cached_bleu, BLEU), (cached_chrf, CHRF)])
def test_a_mean_over_seeds(cached, plain, monkeypatch):
    """In each sample all seeds have the same sentences."""
    monkeypatch.setattr(bleu, "BLEU_TEST_SAMPLES", 60)
    draw = random.Random(2)
    references = [" ".join(draw.choices("abcdefg", k=draw.randint(4, 12))) for _ in range(20)]
    seeds = [tuple(spoiled(references, draw, share) for share in (0.2, 0.3)) for _ in range(3)]

    def mean(numbers):
        wanted = [[references[i] for i in numbers]]
        scores = [
            [plain().corpus_score([texts[i] for i in numbers], wanted).score for texts in pair]
            for pair in seeds
        ]
        return sum(ours - theirs for ours, theirs in scores) / 3

    numbers = np.random.default_rng(1)
    samples = [mean(numbers.integers(20, size=20)) for _ in range(60)]
    found = mean_score_difference(cached(references), seeds)
    assert found.mean == pytest.approx(mean(range(20)))
    assert found.low == pytest.approx(np.quantile(samples, 0.025))
    assert found.high == pytest.approx(np.quantile(samples, 0.975))
