"""Costs measured on a model whose batches take known times, all but the disturbed ones."""

from argparse import Namespace

import pytest

from pet_fairseq.serve import batch_costs
from pet_fairseq.serve.run import format_costs
from pet_fairseq.serve.scheduler import Cost

KNOWN = {1: Cost(0.002, 0.0004), 4: Cost(0.003, 0.0001)}


class Clocked:
    """Batches take longer in the first rounds, and later now and then longer or shorter."""

    def __init__(self, max_tokens):
        self.max_tokens = max_tokens
        self.now = 0.0
        self.calls = []

    def random_text(self, length):
        return [0] * length

    def warm_up(self, texts, ratio):
        tokens = sum(map(len, texts))
        self.calls.append((ratio, len(texts), tokens))
        round_ = (len(self.calls) - 1) // 4
        disturbed = {0: 9, 1: 5, 3: 0.01, 4: 3, 6: 0.5}.get(round_, 1)
        self.now += disturbed * KNOWN[ratio].seconds(tokens)


def measure(monkeypatch, max_tokens, batch_tokens):
    model = Clocked(max_tokens)
    monkeypatch.setattr(batch_costs, "time", Namespace(perf_counter=lambda: model.now))
    return batch_costs.measure_costs(model, [1, 4], batch_tokens), model


def test_the_line_is_measured_at_one_text_and_at_a_full_batch(monkeypatch):
    measured, model = measure(monkeypatch, max_tokens=100, batch_tokens=1000)
    assert set(model.calls) == {(k, *size) for k in (1, 4) for size in ((1, 100), (10, 1000))}
    for ratio, cost in KNOWN.items():
        assert tuple(measured[ratio]) == pytest.approx(tuple(cost))


def test_short_texts_and_small_batches(monkeypatch):
    measured, model = measure(monkeypatch, max_tokens=6, batch_tokens=6)
    assert set(model.calls) == {(1, 1, 6), (4, 1, 6)}
    assert measured[4].seconds(6) == pytest.approx(KNOWN[4].seconds(6))


def test_slow_models_are_measured_once(monkeypatch):
    monkeypatch.setattr(batch_costs, "PATIENCE", 0.0)
    measured, model = measure(monkeypatch, max_tokens=100, batch_tokens=1000)
    assert len(model.calls) == 4
    assert measured[1].seconds(1000) == pytest.approx(9 * KNOWN[1].seconds(1000))


def test_what_is_told_about_costs():
    calm = format_costs(KNOWN, batch_tokens=1000, target_ms=210)
    assert calm.splitlines() == [
        "ratio 1: about 402 ms for a batch of 1000 tokens",
        "ratio 4: about 103 ms for a batch of 1000 tokens",
    ]
    (*_, note) = format_costs(KNOWN, batch_tokens=1000, target_ms=200).splitlines()
    assert note.startswith("note: with such batches --target-ms 200 cannot be kept")
