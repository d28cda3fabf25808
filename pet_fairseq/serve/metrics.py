"""The figures of /metrics, written by Prometheus' own library."""

import math
import time
from collections import Counter, deque
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from pet_fairseq.serve.queue import BatchQueue

QUANTILES = (0.5, 0.95, 0.99)
PREFIX = "pet_fairseq"


class Window:
    """The values of the last seconds.

    Args:
        seconds: how long a value counts. max_values: how many are kept, the newest ones.
    """

    def __init__(self, seconds: float = 60.0, max_values: int = 10_000):
        self.seconds = seconds
        self.values: deque[tuple[float, float]] = deque(maxlen=max_values)

    def add(self, value: float, now: float) -> None:
        self.values.append((now, value))

    def quantiles(self, shares: tuple[float, ...], now: float) -> list[float]:
        """For each share the smallest value that so many values do not exceed; NaN without any."""
        while self.values and self.values[0][0] < now - self.seconds:
            self.values.popleft()
        ordered = sorted(value for _, value in self.values)
        if not ordered:
            return [math.nan] * len(shares)
        return [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares]


class Metrics(Collector):
    """Counts since the start, and latencies of the last minute.

    It writes its own families because the library's summaries have no quantiles.

    Args:
        queue: whose length is shown. target: promised latency in seconds. ratio: in use at the
            start.
    """

    def __init__(self, queue: BatchQueue, target: float, ratio: int):
        self.queue = queue
        self.target = target
        self.ratio = ratio
        self.requests: Counter[int] = Counter()  # by status
        self.batches: Counter[int] = Counter()  # by ratio
        self.tokens: Counter[int] = Counter()  # by ratio
        self.latency = Window()
        self.latency_sum = 0.0
        self.latency_count = 0
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def count_request(self, status: int) -> None:
        self.requests[status] += 1

    def count_batch(self, ratio: int, tokens: int) -> None:
        self.ratio = ratio
        self.batches[ratio] += 1
        self.tokens[ratio] += tokens

    def count_answer(self, seconds: float) -> None:
        """Count a request that was answered so many seconds after it came."""
        self.latency.add(seconds, time.monotonic())
        self.latency_sum += seconds
        self.latency_count += 1

    def page(self) -> bytes:
        """What Prometheus reads."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """The figures of now, as the library asks for them."""
        yield gauge("ratio", "compression ratio of the last batch", self.ratio)
        yield gauge("queue_texts", "texts that wait", len(self.queue))
        yield gauge("queue_tokens", "tokens that wait", self.queue.tokens)
        yield gauge("target_seconds", "latency that is promised", self.target)
        yield counter("requests", "requests by status", "status", self.requests)
        yield counter("batches", "batches by ratio", "ratio", self.batches)
        yield counter("tokens", "tokens by ratio", "ratio", self.tokens)
        yield self._latencies()

    def _latencies(self) -> Metric:
        name = f"{PREFIX}_latency_seconds"
        description = "from arrival to answer; quantiles over the last minute"
        summary = SummaryMetricFamily(name, description, self.latency_count, self.latency_sum)
        values = self.latency.quantiles(QUANTILES, time.monotonic())
        summary.samples += [
            Sample(name, {"quantile": str(share)}, value) for share, value in zip(QUANTILES, values)
        ]
        return summary


def gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", description, value)


def counter(name: str, description: str, label: str, counts: Counter[int]) -> Metric:
    """Counts by the values of a label."""
    family = CounterMetricFamily(f"{PREFIX}_{name}", description, labels=[label])
    for key in sorted(counts):
        family.add_metric([str(key)], counts[key])
    return family
