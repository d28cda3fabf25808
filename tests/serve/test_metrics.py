"""Latencies over a sliding window, and the page that Prometheus reads."""

import math
import random
import re
from argparse import Namespace

import numpy as np
import pytest

from pet_fairseq.serve import metrics
from pet_fairseq.serve.metrics import Metrics, Window


def read_page(page):
    """Values by name and labels, after checking each line's form and that it was announced."""
    values, announced = {}, set()
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            announced.add(line.split()[2])
        elif not line.startswith("# HELP "):
            name, labels, value = re.fullmatch(r'(\w+)(\{\w+="[^"]+"\})? (\S+)', line).groups()
            assert name in announced or re.sub("_(sum|count)$", "", name) in announced
            values[name + (labels or "")] = float(value)
    return values


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 333])
def test_quantiles(count):
    window = Window(seconds=60)
    values = [random.random() for _ in range(count)]
    for value in values:
        window.add(value, now=5.0)
    shares = (0.01, 0.5, 0.95, 0.99, 1.0)
    expected = [np.quantile(values, share, method="inverted_cdf") for share in shares]
    assert window.quantiles(shares, now=6.0) == expected


def test_old_values_are_forgotten():
    window = Window(seconds=10, max_values=3)
    assert all(map(math.isnan, window.quantiles((0.5, 0.9), now=0.0)))
    for value in (1.0, 2.0, 3.0, 4.0):
        window.add(value, now=value)
    assert window.quantiles((0.0, 1.0), now=5.0) == [2.0, 4.0]  # the first was one too many
    assert window.quantiles((0.0, 1.0), now=13.5) == [4.0, 4.0]
    assert math.isnan(window.quantiles((0.5,), now=15.0)[0])


class Waiting(list):
    """A queue of seven texts with 99 tokens."""

    tokens = 99


def test_page(monkeypatch):
    monkeypatch.setattr(metrics, "time", Namespace(monotonic=lambda: 3.0))
    counted = Metrics(Waiting(range(7)), target=0.5, ratio=1)
    empty = read_page(counted.page().decode())
    assert empty["pet_fairseq_ratio"] == 1 and empty["pet_fairseq_target_seconds"] == 0.5
    assert math.isnan(empty['pet_fairseq_latency_seconds{quantile="0.95"}'])
    for status in (200, 400, 200):
        counted.count_request(status)
    for ratio, tokens in ((1, 10), (4, 20), (4, 5)):
        counted.count_batch(ratio, tokens)
    for seconds in (0.25, 1.0):
        counted.count_answer(seconds)
    text = counted.page().decode()
    kinds = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE "))
    assert kinds == {
        "pet_fairseq_ratio": "gauge",
        "pet_fairseq_queue_texts": "gauge",
        "pet_fairseq_queue_tokens": "gauge",
        "pet_fairseq_target_seconds": "gauge",
        "pet_fairseq_requests_total": "counter",
        "pet_fairseq_batches_total": "counter",
        "pet_fairseq_tokens_total": "counter",
        "pet_fairseq_latency_seconds": "summary",
    }
    assert read_page(text) == {
        "pet_fairseq_ratio": 4,
        "pet_fairseq_queue_texts": 7,
        "pet_fairseq_queue_tokens": 99,
        "pet_fairseq_target_seconds": 0.5,
        'pet_fairseq_requests_total{status="200"}': 2,
        'pet_fairseq_requests_total{status="400"}': 1,
        'pet_fairseq_batches_total{ratio="1"}': 1,
        'pet_fairseq_batches_total{ratio="4"}': 2,
        'pet_fairseq_tokens_total{ratio="1"}': 10,
        'pet_fairseq_tokens_total{ratio="4"}': 25,
        'pet_fairseq_latency_seconds{quantile="0.5"}': 0.25,
        'pet_fairseq_latency_seconds{quantile="0.95"}': 1.0,
        'pet_fairseq_latency_seconds{quantile="0.99"}': 1.0,
        "pet_fairseq_latency_seconds_sum": 1.25,
        "pet_fairseq_latency_seconds_count": 2,
    }
